# The majority task (Figures 1a, 1b, 2a, 2b and 3): data, training, aggregation. A batch of seeds is trained by one job.
MAJORITY_DATA = f"{RUN}/{planning.MAJORITY_DATA}"
MAJORITY_BATCHES = PLAN.batches()


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


for JOBS in PLAN.jobs("majority", "train"):
    BENCHMARKS += JOBS.benchmarks()

    rule:
        name:
            JOBS.rule
        input:
            data=JOBS.data,
        output:
            metrics=JOBS.files("metrics.parquet"),
            vectors=JOBS.files("vectors.parquet"),
            weights=JOBS.files("weights.safetensors"),
        log:
            JOBS.note("logs", ".log"),
        benchmark:
            JOBS.note("benchmarks", ".tsv")
        wildcard_constraints:
            experiment="|".join(JOBS.groups),
        group:
            JOBS.submission
        resources:
            gpu=PLAN.gpus("majority"),
            mem_mb=doubling(4000 if PLAN.gpus("majority") else 1500),
            runtime=JOBS.minutes,
        params:
            **of_runs(JOBS),
            seeds=JOBS.seeds,
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
