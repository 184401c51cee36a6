# The majority task (Figures 1a, 1b, 2a, 2b, 3): data, training, aggregation, figures and the convergence table.
MAJORITY_RUN = f"{RUN}/runs/majority/{{experiment}}/{{variant}}/seed_{{seed}}"


rule majority_data:
    output:
        f"{RUN}/data/majority/{{experiment}}/seed_{{seed}}.parquet",
    log:
        f"{RUN}/logs/majority_data/{{experiment}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_data/{{experiment}}/seed_{{seed}}.tsv"
    params:
        task=settings("majority", "experiment"),
        code=code("majority/data", "majority/partitions"),
    script:
        "../scripts/generate_majority_data.py"


MANY = jobs_of_many_runs()


rule majority_train:
    input:
        data=[f"{RUN}/data/majority/{{experiment}}/seed_{{seed}}.parquet"],
    output:
        metrics=[f"{MAJORITY_RUN}/metrics.parquet"],
        vectors=[f"{MAJORITY_RUN}/vectors.parquet"],
        weights=[f"{MAJORITY_RUN}/weights.safetensors"],
    log:
        f"{RUN}/logs/majority_train/{{experiment}}/{{variant}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_train/{{experiment}}/{{variant}}/seed_{{seed}}.tsv"
    wildcard_constraints:
        experiment="|".join(sorted({*config["majority"]} - {job[1] for job in MANY})) or "none",
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime="30m",
    params:
        experiment="{experiment}",
        runs=lambda wildcards: [(wildcards.variant, int(wildcards.seed))],
        task=settings("majority", "experiment"),
        norms=lambda wildcards: {wildcards.variant: norm_class(config, wildcards.variant)},
        norm_code=lambda wildcards: {wildcards.variant: norm_code(wildcards.variant)},
        device=device(),
        code=code("majority", "checkpoint", "gpu", "norms"),
    script:
        "../scripts/train_majority.py"


for NAME, EXPERIMENT, RUNS in MANY:

    rule:
        name:
            f"majority_train_{NAME}"
        input:
            data=[f"{RUN}/data/majority/{EXPERIMENT}/seed_{seed}.parquet" for _, seed in RUNS],
        output:
            **{
                file.partition(".")[0]: [
                    f"{RUN}/runs/majority/{EXPERIMENT}/{variant}/seed_{seed}/{file}"
                    for variant, seed in RUNS
                ]
                for file in ("metrics.parquet", "vectors.parquet", "weights.safetensors")
            },
        log:
            f"{RUN}/logs/majority_train/{NAME}.log",
        benchmark:
            f"{RUN}/benchmarks/majority_train/{NAME}.tsv"
        threads: 1
        resources:
            gpu=gpus(config),
            mem_mb=memory(1000, beside_gpu=4000),
            runtime="2h",
        params:
            experiment=EXPERIMENT,
            runs=RUNS,
            task=settings("majority", "experiment")({"experiment": EXPERIMENT}),
            norms={variant: norm_class(config, variant) for variant, _ in RUNS},
            norm_code={variant: norm_code(variant) for variant, _ in RUNS},
            device=device(),
            code=code("majority", "checkpoint", "gpu", "norms"),
        script:
            "../scripts/train_majority.py" if device() == "cpu" else "../scripts/train_majority_stacked.py"


rule majority_tables:
    input:
        lambda wildcards: runs("majority", f"{wildcards.kind}.parquet"),
    output:
        f"{RUN}/parquet/majority_{{kind}}.parquet",
    log:
        f"{RUN}/logs/majority_tables/{{kind}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_tables/{{kind}}.tsv"
    wildcard_constraints:
        kind="metrics|vectors",
    params:
        table=lambda wildcards: f"majority_{wildcards.kind}",
        settings=config["majority"],
    script:
        "../scripts/collect_tables.py"


# Drawn from the Parquet of any run, so that a kept one can be drawn again without training.
MAJORITY_FIGURES = ["1a", "1b", "1_all", "2a", "2b", "3", "2a_all", "2b_all", "3_all", "2_uniform"]


rule majority_figures:
    input:
        metrics="results/{run}/parquet/majority_metrics.parquet",
        vectors="results/{run}/parquet/majority_vectors.parquet",
    output:
        drawings("Majority task", *(f"figure_{name}" for name in MAJORITY_FIGURES)),
    log:
        "results/{run}/logs/majority_figures.log",
    benchmark:
        "results/{run}/benchmarks/majority_figures.tsv"
    params:
        figures=MAJORITY_FIGURES,
        code=code("evidence/majority", "evidence/style"),
    script:
        "../scripts/draw_majority.py"


rule convergence_table:
    input:
        "results/{run}/parquet/majority_metrics.parquet",
    output:
        runs="results/{run}/tables/convergence_runs.csv",
        csv="results/{run}/tables/convergence.csv",
        md="results/{run}/tables/convergence.md",
    log:
        "results/{run}/logs/convergence_table.log",
    benchmark:
        "results/{run}/benchmarks/convergence_table.tsv"
    params:
        code=code("evidence/majority"),
    script:
        "../scripts/tabulate_convergence.py"


rule majority:
    input:
        expand(f"{RUN}/figures/figure_{{figure}}.{{kind}}", figure=MAJORITY_FIGURES, kind=["png", "pdf"]),
        f"{RUN}/tables/convergence.md",
