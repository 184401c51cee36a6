# The majority task (Figures 1a, 1b, 2a, 2b and 3): a data set for each seed, and training in batches of runs.
MAJORITY = THIS.training["majority"]


rule majority_data:
    input:
        plan=f"{RUN}/plan/majority_data/{{experiment}}/seed_{{seed}}.json",
        done=done("majority_data/{experiment}/seed_{seed}"),
    output:
        origin=f"{RUN}/origin/majority_data/{{experiment}}/seed_{{seed}}.json",
        data=f"{RUN}/data/majority/{{experiment}}/seed_{{seed}}.parquet",
    log:
        f"{RUN}/logs/majority_data/{{experiment}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority_data/{{experiment}}/seed_{{seed}}.tsv"
    script:
        "../scripts/generate_majority_data.py"


rule majority_train:
    input:
        plan=f"{RUN}/plan/majority/{{batch}}.json",
        done=done("majority/{batch}"),
        data=ancient(lambda wildcards: THIS.majority_data(MAJORITY[wildcards.batch])),
    output:
        origin=f"{RUN}/origin/majority/{{batch}}.json",
        metrics=f"{RUN}/runs/majority/{{batch}}/majority_metrics.parquet",
        vectors=f"{RUN}/runs/majority/{{batch}}/majority_vectors.parquet",
        weights=f"{RUN}/runs/majority/{{batch}}/weights.safetensors",
    log:
        f"{RUN}/logs/majority/{{batch}}.log",
    benchmark:
        f"{RUN}/benchmarks/majority/{{batch}}.tsv"
    resources:
        mem_mb=doubling(1500),
        runtime=lambda wildcards, attempt: MAJORITY[wildcards.batch].minutes * 2 ** (attempt - 1),
    script:
        "../scripts/train_majority.py"
