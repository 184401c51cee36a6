# What other documents than the paper say about LayerNorm: small experiments, each with its tables.
from layernorm_roles.catalogue import TABLES

SAMPLES = [f"{RUN}/runs/measure/{batch}/samples.safetensors" for batch in THIS.sampled]
TEXT = THIS.text_files(THIS.settings.statements.placement.text)

for STATEMENT in ("geometry", "fusion", "batch_dependence", "score_scale"):

    rule:
        name:
            STATEMENT
        input:
            plan=f"{RUN}/plan/{STATEMENT}.json",
            done=done(STATEMENT),
            samples=ancient(SAMPLES if STATEMENT == "fusion" else []),
        output:
            **{table: f"{RUN}/parquet/{table}.parquet" for table in TABLES if TABLES[table] == STATEMENT},
            origin=f"{RUN}/origin/{STATEMENT}.json",
        log:
            f"{RUN}/logs/{STATEMENT}.log",
        benchmark:
            f"{RUN}/benchmarks/{STATEMENT}.tsv"
        script:
            "../scripts/measure_statements.py"


rule placement:
    input:
        plan=f"{RUN}/plan/placement/{{placement}}.json",
        done=done("placement/{placement}"),
        manifest=ancient(TEXT["manifest"]),
        text=ancient([*TEXT.values()]),
    output:
        origin=f"{RUN}/origin/placement/{{placement}}.json",
        placement=f"{RUN}/runs/placement/{{placement}}/placement.parquet",
        untrained_gradients=f"{RUN}/runs/placement/{{placement}}/untrained_gradients.parquet",
        position_probe=f"{RUN}/runs/placement/{{placement}}/position_probe.parquet",
    log:
        f"{RUN}/logs/placement/{{placement}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement/{{placement}}.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(60),
    script:
        "../scripts/measure_statements.py"
