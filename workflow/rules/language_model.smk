# The language models (Figure 4, Tables 1 to 4): training, verdicts on their keys, activations, aggregation.
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
    steps=r"\d+",


for JOBS in PLAN.jobs("language_model", "train"):
    BENCHMARKS += JOBS.benchmarks()

    rule:
        name:
            JOBS.rule
        input:
            unpack(JOBS.text("tokenizer", "training", "validation", "contexts", "manifest")),
            downloads=JOBS.downloads,
        output:
            initial=JOBS.files("initial.safetensors"),
            final=JOBS.files("final.safetensors"),
            metrics=JOBS.files("metrics.parquet"),
        log:
            JOBS.note("logs", ".log"),
        benchmark:
            JOBS.note("benchmarks", ".tsv")
        wildcard_constraints:
            model="|".join(JOBS.groups),
        group:
            JOBS.submission
        threads: PLAIN["threads_per_training"]
        resources:
            gpu=PLAN.gpus("language_model"),
            mem_mb=doubling(4000 if PLAN.gpus("language_model") else 1500),
            runtime=JOBS.minutes,
        params:
            **of_runs(JOBS),
            device=PLAN.devices["language_model"].device,
            device_check=PLAIN["device_check"],
            downloads=DOWNLOADS,
            code=code("train_language_model.py"),
        script:
            "../scripts/train_language_model.py"


for JOBS in PLAN.jobs("language_model", "keys", PLAN.judged_runs()):
    BENCHMARKS += JOBS.benchmarks()

    rule:
        name:
            JOBS.rule
        input:
            unpack(JOBS.text("tokenizer", "contexts", "manifest")),
            initial=JOBS.files("initial.safetensors"),
            final=JOBS.files("final.safetensors"),
        output:
            verdicts=JOBS.files("keys.parquet"),
            tokens=JOBS.files("tokens.parquet"),
            ones_share=JOBS.files("ones_share.parquet"),
        log:
            JOBS.note("logs", ".log"),
        benchmark:
            JOBS.note("benchmarks", ".tsv")
        wildcard_constraints:
            model="|".join(JOBS.groups),
        group:
            "language_model_keys"
        resources:
            **asking(1500, 15),
        params:
            **of_runs(JOBS),
            code=code("collect_keys.py"),
        script:
            "../scripts/collect_keys.py"


for JOBS in PLAN.jobs("language_model", "ceilings", PLAN.ceiling_runs()):
    BENCHMARKS += JOBS.benchmarks()

    rule:
        name:
            JOBS.rule
        input:
            unpack(JOBS.text("tokenizer", "contexts", "manifest")),
            initial=JOBS.files("initial.safetensors"),
            final=JOBS.files("final.safetensors"),
        output:
            ceilings=JOBS.files("ceilings.parquet"),
        log:
            JOBS.note("logs", ".log"),
        benchmark:
            JOBS.note("benchmarks", ".tsv")
        wildcard_constraints:
            model="|".join(JOBS.groups),
        group:
            "language_model_keys"
        resources:
            **asking(1500, 10),
        params:
            **of_runs(JOBS),
            contexts=JOBS.ceiling_contexts,
            code=code("measure_ceilings.py"),
        script:
            "../scripts/measure_ceilings.py"


for JOBS in PLAN.jobs("language_model", "activations", PLAN.recorded_runs()):
    BENCHMARKS += JOBS.benchmarks()

    rule:
        name:
            JOBS.rule
        input:
            unpack(JOBS.text("tokenizer", "contexts", "manifest")),
            final=JOBS.files("final.safetensors"),
        output:
            activations=JOBS.files("activations.safetensors"),
        log:
            JOBS.note("logs", ".log"),
        benchmark:
            JOBS.note("benchmarks", ".tsv")
        wildcard_constraints:
            model="|".join(JOBS.groups),
        group:
            "language_model_keys"
        resources:
            **asking(2000, 10),
        params:
            **of_runs(JOBS),
            block_contexts=PLAIN["statements"]["fusion"]["contexts"],
            head_contexts=PLAIN["statements"]["score_scale"]["contexts"],
            code=code("record_activations.py"),
        script:
            "../scripts/record_activations.py"
