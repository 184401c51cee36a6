# What other documents than the paper say about LayerNorm: small experiments, each with its tables.
SAMPLES = [
    f"{FOLDER}/runs/language_model_measure/{batch}/samples.safetensors" for batch in REPRODUCTION.sampled
]


rule geometry:
    input:
        differs=differs("geometry"),
    output:
        origin=f"{FOLDER}/origin/geometry.json",
        measured=f"{FOLDER}/parquet/geometry.parquet",
        cloud=f"{FOLDER}/parquet/geometry_cloud.parquet",
    log:
        f"{FOLDER}/logs/geometry.log",
    benchmark:
        f"{FOLDER}/benchmarks/geometry.tsv"
    group:
        "statements"
    params:
        plan=planned("geometry"),
    script:
        "../scripts/measure_geometry.py"


rule batch_dependence:
    input:
        differs=differs("batch_dependence"),
    output:
        origin=f"{FOLDER}/origin/batch_dependence.json",
        table=f"{FOLDER}/parquet/batch_dependence.parquet",
    log:
        f"{FOLDER}/logs/batch_dependence.log",
    benchmark:
        f"{FOLDER}/benchmarks/batch_dependence.tsv"
    group:
        "statements"
    params:
        plan=planned("batch_dependence"),
    script:
        "../scripts/measure_batch_dependence.py"


rule fusion:
    input:
        differs=differs("fusion"),
        samples=SAMPLES,
    output:
        origin=f"{FOLDER}/origin/fusion.json",
        table=f"{FOLDER}/parquet/fusion.parquet",
    log:
        f"{FOLDER}/logs/fusion.log",
    benchmark:
        f"{FOLDER}/benchmarks/fusion.tsv"
    group:
        "statements"
    params:
        plan=planned("fusion"),
    script:
        "../scripts/measure_fusion.py"


rule score_scale:
    input:
        differs=differs("score_scale"),
    output:
        origin=f"{FOLDER}/origin/score_scale.json",
        table=f"{FOLDER}/parquet/score_scale.parquet",
    log:
        f"{FOLDER}/logs/score_scale.log",
    benchmark:
        f"{FOLDER}/benchmarks/score_scale.tsv"
    group:
        "statements"
    params:
        plan=planned("score_scale"),
    script:
        "../scripts/measure_score_scale.py"


rule placement:
    input:
        differs=differs("placement/{placement}"),
        manifest=REPRODUCTION.text_files(REPRODUCTION.settings.statements.placement.text)["manifest"],
        text=[*REPRODUCTION.text_files(REPRODUCTION.settings.statements.placement.text).values()],
    output:
        origin=f"{FOLDER}/origin/placement/{{placement}}.json",
        placement=f"{FOLDER}/runs/placement/{{placement}}/placement.parquet",
        untrained_gradients=f"{FOLDER}/runs/placement/{{placement}}/untrained_gradients.parquet",
        position_probe=f"{FOLDER}/runs/placement/{{placement}}/position_probe.parquet",
    log:
        f"{FOLDER}/logs/placement/{{placement}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/placement/{{placement}}.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        plan=planned("placement/{placement}"),
    script:
        "../scripts/train_placement.py"
