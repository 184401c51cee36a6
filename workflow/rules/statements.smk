# What other documents than the paper say about LayerNorm: small experiments, each with one or two tables.
STATEMENT_TABLES = [
    "geometry",
    "geometry_cloud",
    "fusion",
    "placement",
    "placement_gradients",
    "batch_dependence",
    "score_scale",
    "worked_numbers",
]
LAYERNORM_RUNS = [run.folder for run in PLAN.runs("language_model", "gpt") if run.variant == "layernorm"]
ACTIVATIONS = [f"{RUN}/runs/language_model/{run}/activations.safetensors" for run in LAYERNORM_RUNS]


rule geometry:
    output:
        measured=f"{RUN}/parquet/geometry.parquet",
        cloud=f"{RUN}/parquet/geometry_cloud.parquet",
    log:
        f"{RUN}/logs/geometry.log",
    benchmark:
        f"{RUN}/benchmarks/geometry.tsv"
    params:
        settings=PLAIN["statements"]["geometry"],
        code=code("measure_geometry.py"),
    script:
        "../scripts/measure_geometry.py"


rule fusion:
    input:
        activations=ACTIVATIONS,
    output:
        f"{RUN}/parquet/fusion.parquet",
    log:
        f"{RUN}/logs/fusion.log",
    benchmark:
        f"{RUN}/benchmarks/fusion.tsv"
    params:
        settings=PLAIN["statements"]["fusion"],
        code=code("measure_fusion.py"),
    script:
        "../scripts/measure_fusion.py"


rule placement_train:
    input:
        rules.text.output.training,
    output:
        losses=f"{RUN}/runs/placement/{{placement}}/placement.parquet",
        gradients=f"{RUN}/runs/placement/{{placement}}/placement_gradients.parquet",
    log:
        f"{RUN}/logs/placement_train/{{placement}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement_train/{{placement}}.tsv"
    wildcard_constraints:
        placement="pre|post",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime="2h",
    params:
        settings=PLAIN["statements"]["placement"],
        code=code("train_placement.py"),
    script:
        "../scripts/train_placement.py"


rule placement_tables:
    input:
        expand(
            f"{RUN}/runs/placement/{{placement}}/{{{{table}}}}.parquet",
            placement=PLAIN["statements"]["placement"]["placements"],
        ),
    output:
        f"{RUN}/parquet/{{table}}.parquet",
    log:
        f"{RUN}/logs/placement_tables/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement_tables/{{table}}.tsv"
    wildcard_constraints:
        table="placement|placement_gradients",
    params:
        table="{table}",
        settings=PLAIN["statements"]["placement"],
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


rule batch_dependence:
    output:
        f"{RUN}/parquet/batch_dependence.parquet",
    log:
        f"{RUN}/logs/batch_dependence.log",
    benchmark:
        f"{RUN}/benchmarks/batch_dependence.tsv"
    params:
        settings=PLAIN["statements"]["batch_dependence"],
        code=code("measure_batch_dependence.py"),
    script:
        "../scripts/measure_batch_dependence.py"


rule score_scale:
    input:
        activations=ACTIVATIONS,
        vectors=f"{RUN}/parquet/majority_vectors.parquet",
    output:
        f"{RUN}/parquet/score_scale.parquet",
    log:
        f"{RUN}/logs/score_scale.log",
    benchmark:
        f"{RUN}/benchmarks/score_scale.tsv"
    params:
        settings=PLAIN["statements"]["score_scale"],
        # Of the majority task, the models with the largest d_model are measured; of several such experiments the first.
        experiment=max(PLAIN["majority"], key=lambda name: PLAIN["majority"][name]["d_model"]),
        code=code("measure_score_scale.py"),
    script:
        "../scripts/measure_score_scale.py"


rule worked_numbers:
    output:
        f"{RUN}/parquet/worked_numbers.parquet",
    log:
        f"{RUN}/logs/worked_numbers.log",
    benchmark:
        f"{RUN}/benchmarks/worked_numbers.tsv"
    params:
        code=code("measure_worked_numbers.py"),
    script:
        "../scripts/measure_worked_numbers.py"


for NAME in ("geometry", "fusion", "batch_dependence", "score_scale", "worked_numbers"):
    BENCHMARKS += job_files("benchmarks", NAME)
BENCHMARKS += job_files("benchmarks", "language_model_activations", LAYERNORM_RUNS)
BENCHMARKS += job_files("benchmarks", "placement_train", PLAIN["statements"]["placement"]["placements"])
BENCHMARKS += job_files("benchmarks", "placement_tables", ["placement", "placement_gradients"])
