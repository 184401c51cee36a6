# The majority task (Figures 1a, 1b, 2a, 2b and 3): data, training, aggregation.
MAJORITY_JOB = "{experiment}/{variant}/d_model_{d_model}/learning_rate_{learning_rate}/seed_{seed}"
MAJORITY_RUN = f"{RUN}/runs/majority/{MAJORITY_JOB}"
MAJORITY_DATA = f"{RUN}/data/majority/{{experiment}}/seed_{{seed}}.parquet"
SHARED_JOBS = PLAN.shared_jobs()


wildcard_constraints:
    d_model=r"\d+",
    learning_rate=r"[\d.e-]+",


rule majority_data:
    output:
        MAJORITY_DATA,
    log:
        f"{RUN}/logs/majority_data/{{experiment}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_data/{{experiment}}/seed_{{seed}}.tsv"
    params:
        settings=lambda wildcards: PLAN.settings.majority[wildcards.experiment].of_data(),
        code=code("generate_majority_data.py"),
    script:
        "../scripts/generate_majority_data.py"


rule majority_train:
    input:
        data=[MAJORITY_DATA],
    output:
        metrics=[f"{MAJORITY_RUN}/metrics.parquet"],
        vectors=[f"{MAJORITY_RUN}/vectors.parquet"],
        weights=[f"{MAJORITY_RUN}/weights.safetensors"],
    log:
        f"{RUN}/logs/majority_train/{MAJORITY_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_train/{MAJORITY_JOB}.tsv"
    wildcard_constraints:
        experiment="|".join(sorted({*PLAIN["majority"]} - {job.group for job in SHARED_JOBS})) or "none",
    threads: 1
    resources:
        gpu=PLAN.gpus("majority"),
        mem_mb=doubling(4000 if PLAN.gpus("majority") else 1000),
        runtime=doubling(30),
    params:
        experiment="{experiment}",
        runs=lambda wildcards: [
            {
                "variant": wildcards.variant,
                "seed": int(wildcards.seed),
                "d_model": int(wildcards.d_model),
                "learning_rate": float(wildcards.learning_rate),
            }
        ],
        settings=lambda wildcards: PLAN.run_settings("majority", wildcards.experiment),
        norms=lambda wildcards: {wildcards.variant: PLAN.norm_class(wildcards.variant)},
        norm_code=lambda wildcards: {wildcards.variant: PLAN.norm_version(wildcards.variant)},
        device=PLAN.device("majority"),
        device_check=PLAIN["device_check"],
        code=code("train_majority.py"),
    script:
        "../scripts/train_majority.py"


for JOB in SHARED_JOBS:

    rule:
        name:
            "majority_train_" + "".join(letter if letter.isalnum() else "_" for letter in JOB.name)
        input:
            data=[f"{RUN}/data/majority/{run.group}/seed_{run.seed}.parquet" for run in JOB.runs],
        output:
            metrics=PLAN.run_files("majority", "metrics.parquet", JOB.runs),
            vectors=PLAN.run_files("majority", "vectors.parquet", JOB.runs),
            weights=PLAN.run_files("majority", "weights.safetensors", JOB.runs),
        log:
            f"{RUN}/logs/majority_train/{JOB.name}.log",
        benchmark:
            f"{RUN}/benchmarks/majority_train/{JOB.name}.tsv"
        threads: 1
        resources:
            gpu=PLAN.gpus("majority"),
            mem_mb=doubling(4000 if PLAN.gpus("majority") else 1000),
            runtime=doubling(120),
        params:
            experiment=JOB.group,
            runs=[{"variant": run.variant, "seed": run.seed, **dict(run.point)} for run in JOB.runs],
            settings=PLAN.run_settings("majority", JOB.group),
            norms={run.variant: PLAN.norm_class(run.variant) for run in JOB.runs},
            norm_code={run.variant: PLAN.norm_version(run.variant) for run in JOB.runs},
            device=PLAN.device("majority"),
            device_check=PLAIN["device_check"],
            code=code("train_majority.py"),
        script:
            "../scripts/train_majority.py"


rule majority_tables:
    input:
        lambda wildcards: PLAN.run_files("majority", f"{wildcards.kind}.parquet", PLAN.runs("majority")),
    output:
        f"{RUN}/parquet/majority_{{kind}}.parquet",
    log:
        f"{RUN}/logs/majority_tables/{{kind}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_tables/{{kind}}.tsv"
    wildcard_constraints:
        kind="metrics|vectors",
    params:
        table="majority_{kind}",
        settings=PLAIN["majority"],
        identities=PLAN.identities("majority", PLAN.runs("majority")),
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


ALONE = [run.folder for run in PLAN.runs("majority") if PLAIN["majority"][run.group]["seeds_per_job"] == 1]
BENCHMARKS += benchmark_files(
    "majority_data",
    sorted({f"{run.group}/seed_{run.seed}" for run in PLAN.runs("majority")}),
)
BENCHMARKS += benchmark_files("majority_train", [*ALONE, *(job.name for job in SHARED_JOBS)])
BENCHMARKS += benchmark_files("majority_tables", ["metrics", "vectors"])
