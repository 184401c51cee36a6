# The language models (Figure 4, Tables 1 to 4): training, verdicts on their keys, activations, aggregation.
LANGUAGE_MODEL_JOB = "{model}/{variant}/base_learning_rate_{base_learning_rate}/steps_{steps}/seed_{seed}"
LANGUAGE_MODEL_RUN = f"{RUN}/runs/language_model/{LANGUAGE_MODEL_JOB}"


# The file of a run that each table is put together from, and the runs, by the name of the table.
LANGUAGE_MODEL_TABLES = {
    "language_model_metrics": ("metrics.parquet", PLAN.runs("language_model")),
    "key_selectability": ("keys.parquet", PLAN.judged_runs()),
    "sentence_tokens": ("tokens.parquet", PLAN.judged_runs()),
    "language_model_ones_share": ("ones_share.parquet", PLAN.judged_runs()),
    "language_model_ceilings": ("ceilings.parquet", PLAN.ceiling_runs()),
}
LANGUAGE_MODEL_TABLES = {table: found for table, found in LANGUAGE_MODEL_TABLES.items() if found[1]}
for TABLE, (FILE, RUNS) in LANGUAGE_MODEL_TABLES.items():
    COLLECTED[TABLE] = planning.Collected(
        PLAN.run_files("language_model", FILE, RUNS),
        PLAIN["language_model"],
        PLAN.identities("language_model", RUNS),
    )
ACTIVATIONS = PLAN.run_files("language_model", "activations.safetensors", PLAN.recorded_runs())


wildcard_constraints:
    model="|".join(PLAIN["language_model"]),
    steps=r"\d+",


rule language_model_train:
    input:
        unpack(PLAN.text_of_model("tokenizer", "training", "validation", "contexts", "manifest")),
        downloads=lambda wildcards: PLAN.downloaded(PLAN.labelled_sources(wildcards.model)),
    output:
        initial=f"{LANGUAGE_MODEL_RUN}/initial.safetensors",
        final=f"{LANGUAGE_MODEL_RUN}/final.safetensors",
        metrics=f"{LANGUAGE_MODEL_RUN}/metrics.parquet",
    log:
        f"{RUN}/logs/language_model_train/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_train/{LANGUAGE_MODEL_JOB}.tsv"
    group:
        lambda wildcards: PLAN.group("language_model", wildcards.model, int(wildcards.steps))
    threads: PLAIN["threads_per_training"]
    resources:
        gpu=PLAN.gpus("language_model"),
        mem_mb=doubling(4000 if PLAN.gpus("language_model") else 1500),
        runtime=lambda wildcards, attempt: PLAN.minutes(
            "language_model", wildcards.model, int(wildcards.steps), attempt
        ),
    params:
        **of_runs("language_model", "model"),
        device=PLAN.devices["language_model"].device,
        device_check=PLAIN["device_check"],
        downloads=DOWNLOADS,
        code=code("train_language_model.py"),
    script:
        "../scripts/train_language_model.py"


rule language_model_keys:
    input:
        unpack(PLAN.text_of_model("tokenizer", "contexts", "manifest")),
        initial=rules.language_model_train.output.initial,
        final=rules.language_model_train.output.final,
    output:
        verdicts=f"{LANGUAGE_MODEL_RUN}/keys.parquet",
        tokens=f"{LANGUAGE_MODEL_RUN}/tokens.parquet",
        ones_share=f"{LANGUAGE_MODEL_RUN}/ones_share.parquet",
    log:
        f"{RUN}/logs/language_model_keys/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_keys/{LANGUAGE_MODEL_JOB}.tsv"
    group:
        "language_model_keys"
    resources:
        **asking(1500, 15),
    params:
        **of_runs("language_model", "model"),
        code=code("collect_keys.py"),
    script:
        "../scripts/collect_keys.py"


rule language_model_ceilings:
    input:
        unpack(PLAN.text_of_model("tokenizer", "contexts", "manifest")),
        initial=rules.language_model_train.output.initial,
        final=rules.language_model_train.output.final,
    output:
        f"{LANGUAGE_MODEL_RUN}/ceilings.parquet",
    log:
        f"{RUN}/logs/language_model_ceilings/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_ceilings/{LANGUAGE_MODEL_JOB}.tsv"
    group:
        "language_model_keys"
    resources:
        **asking(1500, 10),
    params:
        **of_runs("language_model", "model"),
        contexts=lambda wildcards: PLAIN["language_model"][wildcards.model]["ceiling_contexts"],
        code=code("measure_ceilings.py"),
    script:
        "../scripts/measure_ceilings.py"


rule language_model_activations:
    input:
        unpack(PLAN.text_of_model("tokenizer", "contexts", "manifest")),
        final=rules.language_model_train.output.final,
    output:
        f"{LANGUAGE_MODEL_RUN}/activations.safetensors",
    log:
        f"{RUN}/logs/language_model_activations/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_activations/{LANGUAGE_MODEL_JOB}.tsv"
    group:
        "language_model_keys"
    resources:
        **asking(2000, 10),
    params:
        **of_runs("language_model", "model"),
        block_contexts=PLAIN["statements"]["fusion"]["contexts"],
        head_contexts=PLAIN["statements"]["score_scale"]["contexts"],
        code=code("record_activations.py"),
    script:
        "../scripts/record_activations.py"


for NAME, RUNS in {
    "train": PLAN.runs("language_model"),
    "keys": PLAN.judged_runs(),
    "ceilings": PLAN.ceiling_runs(),
    "activations": PLAN.recorded_runs(),
}.items():
    BENCHMARKS += PLAN.benchmark_files(f"language_model_{NAME}", [run.folder for run in RUNS])
