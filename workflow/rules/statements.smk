# What other documents than the paper say about LayerNorm: small experiments, each with its tables.
SAMPLES = [f"{RUN}/runs/measure/{batch}/samples.safetensors" for batch in THIS.sampled]


rule geometry:
    input:
        plan=f"{RUN}/plan/geometry.json",
        done=done("geometry"),
    output:
        origin=f"{RUN}/origin/geometry.json",
        measured=f"{RUN}/parquet/geometry.parquet",
        cloud=f"{RUN}/parquet/geometry_cloud.parquet",
    log:
        f"{RUN}/logs/geometry.log",
    benchmark:
        f"{RUN}/benchmarks/geometry.tsv"
    script:
        "../scripts/measure_geometry.py"


rule batch_dependence:
    input:
        plan=f"{RUN}/plan/batch_dependence.json",
        done=done("batch_dependence"),
    output:
        origin=f"{RUN}/origin/batch_dependence.json",
        table=f"{RUN}/parquet/batch_dependence.parquet",
    log:
        f"{RUN}/logs/batch_dependence.log",
    benchmark:
        f"{RUN}/benchmarks/batch_dependence.tsv"
    script:
        "../scripts/measure_batch_dependence.py"


rule fusion:
    input:
        plan=f"{RUN}/plan/fusion.json",
        done=done("fusion"),
        samples=ancient(SAMPLES),
    output:
        origin=f"{RUN}/origin/fusion.json",
        table=f"{RUN}/parquet/fusion.parquet",
    log:
        f"{RUN}/logs/fusion.log",
    benchmark:
        f"{RUN}/benchmarks/fusion.tsv"
    script:
        "../scripts/measure_fusion.py"


rule score_scale:
    input:
        plan=f"{RUN}/plan/score_scale.json",
        done=done("score_scale"),
    output:
        origin=f"{RUN}/origin/score_scale.json",
        table=f"{RUN}/parquet/score_scale.parquet",
    log:
        f"{RUN}/logs/score_scale.log",
    benchmark:
        f"{RUN}/benchmarks/score_scale.tsv"
    script:
        "../scripts/measure_score_scale.py"


rule placement:
    input:
        plan=f"{RUN}/plan/placement/{{placement}}.json",
        done=done("placement/{placement}"),
        manifest=ancient(THIS.text_files(THIS.settings.statements.placement.text)["manifest"]),
        text=ancient([*THIS.text_files(THIS.settings.statements.placement.text).values()]),
    output:
        origin=f"{RUN}/origin/placement/{{placement}}.json",
        placement=f"{RUN}/runs/placement/{{placement}}/placement.parquet",
        untrained_gradients=f"{RUN}/runs/placement/{{placement}}/untrained_gradients.parquet",
        position_probe=f"{RUN}/runs/placement/{{placement}}/position_probe.parquet",
    log:
        f"{RUN}/logs/placement/{{placement}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement/{{placement}}.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    script:
        "../scripts/train_placement.py"
