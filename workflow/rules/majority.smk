# The majority task (Figures 1a, 1b, 2a, 2b and 3): data, training, aggregation. A batch of seeds is trained by one job.
MAJORITY_BATCH = (
    "{experiment}/{variant}/d_model_{d_model}/base_learning_rate_{base_learning_rate}/seeds_{seeds}"
)
MAJORITY_FILES = f"{RUN}/runs/majority/{MAJORITY_BATCH}"
MAJORITY_DATA = f"{RUN}/data/majority/{{experiment}}/seed_{{seed}}.parquet"
MAJORITY_BATCHES = PLAN.batches("majority")


wildcard_constraints:
    d_model=r"\d+",
    base_learning_rate=r"[\d.e-]+",
    seeds=r"\d+_to_\d+",


rule majority_data:
    output:
        MAJORITY_DATA,
    log:
        f"{RUN}/logs/majority_data/{{experiment}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_data/{{experiment}}/seed_{{seed}}.tsv"
    group:
        "majority_data"
    resources:
        **asking(1000, 5),
    params:
        settings=lambda wildcards: PLAN.settings.majority[wildcards.experiment].of_data(),
        code=code("generate_majority_data.py"),
    script:
        "../scripts/generate_majority_data.py"


rule majority_train:
    input:
        data=lambda wildcards: expand(
            MAJORITY_DATA, experiment=wildcards.experiment, seed=planning.seeds_of(wildcards.seeds)
        ),
    output:
        metrics=f"{MAJORITY_FILES}/metrics.parquet",
        vectors=f"{MAJORITY_FILES}/vectors.parquet",
        weights=f"{MAJORITY_FILES}/weights.safetensors",
    log:
        f"{RUN}/logs/majority_train/{MAJORITY_BATCH}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_train/{MAJORITY_BATCH}.tsv"
    group:
        lambda wildcards: PLAN.group("majority", wildcards.experiment)
    resources:
        gpu=PLAN.gpus("majority"),
        mem_mb=doubling(4000 if PLAN.gpus("majority") else 1500),
        runtime=lambda wildcards, attempt: PLAN.minutes("majority", wildcards.experiment, attempt=attempt),
    params:
        **of_runs("majority", "experiment"),
        seeds=lambda wildcards: planning.seeds_of(wildcards.seeds),
        device=PLAN.devices["majority"].device,
        device_check=PLAIN["device_check"],
        code=code("train_majority.py"),
    script:
        "../scripts/train_majority.py"


for KIND in ("metrics", "vectors"):
    COLLECTED[f"majority_{KIND}"] = planning.Collected(
        PLAN.run_files("majority", f"{KIND}.parquet", MAJORITY_BATCHES),
        PLAIN["majority"],
        PLAN.identities("majority", MAJORITY_BATCHES),
    )
MAJORITY_SEEDS = sorted({f"{run.group}/seed_{run.seed}" for run in PLAN.runs("majority")})
BENCHMARKS += PLAN.benchmark_files("majority_data", MAJORITY_SEEDS)
BENCHMARKS += PLAN.benchmark_files("majority_train", [batch.folder for batch in MAJORITY_BATCHES])
