# The majority task (Figures 1a, 1b, 2a, 2b and 3): a data set for each seed, and training in batches of runs.
MAJORITY = REPRODUCTION.training["majority"]


rule majority_data:
    input:
        differs=differs("majority_data/{experiment}/seed_{seed}"),
    output:
        origin=f"{FOLDER}/origin/majority_data/{{experiment}}/seed_{{seed}}.json",
        data=f"{FOLDER}/data/majority/{{experiment}}/seed_{{seed}}.parquet",
    log:
        f"{FOLDER}/logs/majority_data/{{experiment}}/seed_{{seed}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/majority_data/{{experiment}}/seed_{{seed}}.tsv"
    group:
        "majority_data"
    params:
        plan=planned("majority_data/{experiment}/seed_{seed}"),
    script:
        "../scripts/generate_majority_data.py"


rule majority_train:
    input:
        differs=differs("majority_train/{batch}"),
        data=lambda wildcards: REPRODUCTION.majority_data(MAJORITY[wildcards.batch]),
    output:
        origin=f"{FOLDER}/origin/majority_train/{{batch}}.json",
        metrics=f"{FOLDER}/runs/majority_train/{{batch}}/majority_metrics.parquet",
        vectors=f"{FOLDER}/runs/majority_train/{{batch}}/majority_vectors.parquet",
        weights=f"{FOLDER}/runs/majority_train/{{batch}}/weights.safetensors",
    log:
        f"{FOLDER}/logs/majority_train/{{batch}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/majority_train/{{batch}}.tsv"
    resources:
        mem_mb=doubling(1500),
        runtime=doubling_minutes(MAJORITY),
    params:
        plan=planned("majority_train/{batch}"),
    script:
        "../scripts/train_majority.py"
