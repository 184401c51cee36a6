# The language models (Figure 4, Tables 1 to 4): training, verdicts on their keys, activations, aggregation.
LANGUAGE_MODEL_JOB = "{model}/{variant}/base_learning_rate_{base_learning_rate}/steps_{steps}/seed_{seed}"
LANGUAGE_MODEL_RUN = f"{RUN}/runs/language_model/{LANGUAGE_MODEL_JOB}"
LANGUAGE_MODEL_RUNS = [run.folder for run in PLAN.runs("language_model")]
JUDGED_RUNS = [run.folder for run in PLAN.judged_runs()]
RECORDED_RUNS = [run.folder for run in PLAN.recorded_runs()]
CEILING_RUNS = [run.folder for run in PLAN.ceiling_runs()]


# The file of a run that each table is collected from, and the runs, by the name of the table.
COLLECTED = {
    "language_model_metrics": ("metrics.parquet", PLAN.runs("language_model")),
    "key_selectability": ("keys.parquet", PLAN.judged_runs()),
    "sentence_tokens": ("tokens.parquet", PLAN.judged_runs()),
} | ({"language_model_ceilings": ("ceilings.parquet", PLAN.ceiling_runs())} if CEILING_RUNS else {})
LANGUAGE_MODEL_TABLES = {
    table: PLAN.run_files("language_model", file, runs) for table, (file, runs) in COLLECTED.items()
}
ACTIVATIONS = PLAN.run_files("language_model", "activations.safetensors", PLAN.recorded_runs())


wildcard_constraints:
    model="|".join(PLAIN["language_model"]),
    base_learning_rate=r"[\d.e-]+",
    steps=r"\d+",


rule language_model_train:
    input:
        unpack(text_of_model("tokenizer", "training", "validation", "contexts", "manifest")),
        downloads=lambda wildcards: downloaded(PLAN.labelled_sources(wildcards.model)),
    output:
        initial=f"{LANGUAGE_MODEL_RUN}/initial.safetensors",
        final=f"{LANGUAGE_MODEL_RUN}/final.safetensors",
        metrics=f"{LANGUAGE_MODEL_RUN}/metrics.parquet",
    log:
        f"{RUN}/logs/language_model_train/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_train/{LANGUAGE_MODEL_JOB}.tsv"
    threads: 1
    resources:
        gpu=PLAN.gpus("language_model"),
        mem_mb=doubling(4000 if PLAN.gpus("language_model") else 1500),
        runtime=doubling(360),
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        device=PLAN.device("language_model"),
        device_check=PLAIN["device_check"],
        downloads=DOWNLOADS,
        code=code("train_language_model.py"),
    script:
        "../scripts/train_language_model.py"


rule language_model_keys:
    input:
        unpack(text_of_model("tokenizer", "contexts", "manifest")),
        initial=rules.language_model_train.output.initial,
        final=rules.language_model_train.output.final,
    output:
        verdicts=f"{LANGUAGE_MODEL_RUN}/keys.parquet",
        tokens=f"{LANGUAGE_MODEL_RUN}/tokens.parquet",
    log:
        f"{RUN}/logs/language_model_keys/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_keys/{LANGUAGE_MODEL_JOB}.tsv"
    threads: 1
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(120),
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        code=code("collect_keys.py"),
    script:
        "../scripts/collect_keys.py"


rule language_model_ceilings:
    input:
        unpack(text_of_model("tokenizer", "contexts", "manifest")),
        initial=rules.language_model_train.output.initial,
        final=rules.language_model_train.output.final,
    output:
        f"{LANGUAGE_MODEL_RUN}/ceilings.parquet",
    log:
        f"{RUN}/logs/language_model_ceilings/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_ceilings/{LANGUAGE_MODEL_JOB}.tsv"
    threads: 1
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(60),
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        code=code("measure_ceilings.py"),
    script:
        "../scripts/measure_ceilings.py"


rule language_model_activations:
    input:
        unpack(text_of_model("tokenizer", "contexts", "manifest")),
        final=rules.language_model_train.output.final,
    output:
        f"{LANGUAGE_MODEL_RUN}/activations.safetensors",
    log:
        f"{RUN}/logs/language_model_activations/{LANGUAGE_MODEL_JOB}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_activations/{LANGUAGE_MODEL_JOB}.tsv"
    threads: 1
    resources:
        mem_mb=doubling(2000),
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        block_contexts=PLAIN["statements"]["fusion"]["contexts"],
        head_contexts=PLAIN["statements"]["score_scale"]["contexts"],
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        code=code("record_activations.py"),
    script:
        "../scripts/record_activations.py"


rule language_model_tables:
    input:
        lambda wildcards: LANGUAGE_MODEL_TABLES[wildcards.table],
    output:
        f"{RUN}/parquet/{{table}}.parquet",
    log:
        f"{RUN}/logs/language_model_tables/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_tables/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(LANGUAGE_MODEL_TABLES),
    params:
        table="{table}",
        settings=PLAIN["language_model"],
        identities=lambda wildcards: PLAN.identities("language_model", COLLECTED[wildcards.table][1]),
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


BENCHMARKS += benchmark_files("language_model_train", LANGUAGE_MODEL_RUNS)
BENCHMARKS += benchmark_files("language_model_keys", JUDGED_RUNS)
BENCHMARKS += benchmark_files("language_model_ceilings", CEILING_RUNS) if CEILING_RUNS else []
BENCHMARKS += benchmark_files("language_model_activations", RECORDED_RUNS)
BENCHMARKS += benchmark_files("language_model_tables", LANGUAGE_MODEL_TABLES)
