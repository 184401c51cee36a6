# What other documents than the paper say about LayerNorm: small experiments, each with its tables.
STATEMENTS = PLAIN["statements"]
PLACEMENT = STATEMENTS["placement"]
PLACEMENT_TABLES = [
    "placement",
    "placement_gradients",
    "placement_scales",
    "untrained_gradients",
    "position_probe",
]
STATEMENT_TABLES = [
    "geometry",
    "geometry_cloud",
    "fusion",
    *PLACEMENT_TABLES,
    "batch_dependence",
    "score_scale",
    "worked_numbers",
]


rule geometry:
    output:
        measured=f"{RUN}/parquet/geometry.parquet",
        cloud=f"{RUN}/parquet/geometry_cloud.parquet",
    log:
        f"{RUN}/logs/geometry.log",
    benchmark:
        f"{RUN}/benchmarks/geometry.tsv"
    group:
        "statements"
    resources:
        **asking(1500, 5),
    params:
        settings=STATEMENTS["geometry"],
        seed=PLAIN["first_seed"],
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
    group:
        "statements"
    resources:
        **asking(1500, 10),
    params:
        settings=STATEMENTS["fusion"],
        seeds=PLAN.seeds(STATEMENTS["fusion"]["seeds"]),
        identities=PLAN.identities("language_model", PLAN.recorded_runs()),
        code=code("measure_fusion.py"),
    script:
        "../scripts/measure_fusion.py"


rule placement_train:
    input:
        **PLAN.text_files(PLACEMENT["text"], "training", "manifest"),
    output:
        **{table: f"{RUN}/runs/placement/{{placement}}/{table}.parquet" for table in PLACEMENT_TABLES},
    log:
        f"{RUN}/logs/placement_train/{{placement}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement_train/{{placement}}.tsv"
    wildcard_constraints:
        placement="pre|post",
    resources:
        **asking(2000, 60),
    params:
        settings=PLACEMENT,
        seeds=PLAN.seeds(PLACEMENT["seeds"]),
        untrained_seeds=PLAN.seeds(PLACEMENT["untrained_seeds"]),
        code=code("train_placement.py"),
    script:
        "../scripts/train_placement.py"


PLACED = {"seeds": PLAN.seeds(PLACEMENT["seeds"]), "settings": PLACEMENT}
for TABLE in PLACEMENT_TABLES:
    COLLECTED[TABLE] = planning.Collected(
        [f"{RUN}/runs/placement/{each}/{TABLE}.parquet" for each in PLACEMENT["placements"]],
        PLACEMENT,
        [{"placement": each, **PLACED} for each in PLACEMENT["placements"]],
    )


rule batch_dependence:
    output:
        f"{RUN}/parquet/batch_dependence.parquet",
    log:
        f"{RUN}/logs/batch_dependence.log",
    benchmark:
        f"{RUN}/benchmarks/batch_dependence.tsv"
    group:
        "statements"
    resources:
        **asking(1500, 5),
    params:
        settings=STATEMENTS["batch_dependence"],
        seeds=PLAN.seeds(STATEMENTS["batch_dependence"]["seeds"]),
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
    group:
        "statements"
    resources:
        **asking(1500, 10),
    params:
        settings=STATEMENTS["score_scale"],
        seeds=PLAN.seeds(STATEMENTS["score_scale"]["seeds"]),
        identities=PLAN.identities("language_model", PLAN.recorded_runs()),
        experiment=PLAN.widest_experiment(),
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
    group:
        "statements"
    resources:
        **asking(1500, 5),
    params:
        code=code("measure_worked_numbers.py"),
    script:
        "../scripts/measure_worked_numbers.py"


for NAME in ("geometry", "fusion", "batch_dependence", "score_scale", "worked_numbers"):
    BENCHMARKS += PLAN.benchmark_files(NAME)
BENCHMARKS += PLAN.benchmark_files("placement_train", PLACEMENT["placements"])
