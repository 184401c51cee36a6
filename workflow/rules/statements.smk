# What other documents than the paper say about LayerNorm: small experiments, each with its tables.
SAMPLES = [
    f"{FOLDER}/runs/language_model_measure/{batch}/samples.safetensors" for batch in REPRODUCTION.sampled
]
TEXT = REPRODUCTION.text_files(REPRODUCTION.settings.statements.placement.text)

for STATEMENT in ("geometry", "fusion", "batch_dependence", "score_scale"):

    rule:
        name:
            STATEMENT
        input:
            differs=differs(STATEMENT),
            samples=SAMPLES if STATEMENT == "fusion" else [],
        output:
            **{table: f"{FOLDER}/parquet/{table}.parquet" for table in TABLES if TABLES[table] == STATEMENT},
            origin=f"{FOLDER}/origin/{STATEMENT}.json",
        log:
            f"{FOLDER}/logs/{STATEMENT}.log",
        benchmark:
            f"{FOLDER}/benchmarks/{STATEMENT}.tsv"
        group:
            "statements"
        params:
            plan=planned(STATEMENT),
        script:
            "../scripts/measure_statements.py"


rule placement:
    input:
        differs=differs("placement/{placement}"),
        manifest=TEXT["manifest"],
        text=[*TEXT.values()],
    output:
        origin=f"{FOLDER}/origin/placement/{{placement}}.json",
        placement=f"{FOLDER}/runs/placement/{{placement}}/placement.parquet",
        untrained_gradients=f"{FOLDER}/runs/placement/{{placement}}/untrained_gradients.parquet",
        position_probe=f"{FOLDER}/runs/placement/{{placement}}/position_probe.parquet",
    log:
        f"{FOLDER}/logs/placement/{{placement}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/placement/{{placement}}.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    params:
        plan=planned("placement/{placement}"),
    script:
        "../scripts/measure_statements.py"
