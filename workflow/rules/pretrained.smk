# Pretrained models: which keys of their heads can win, and how much attention they can get.
PRETRAINED_RUN = f"{RUN}/runs/pretrained/{{pretrained}}"
PRETRAINED_TABLES = ["pretrained_keys", "attention_ceilings", "token_ceilings"] if PLAIN["pretrained"] else []


wildcard_constraints:
    pretrained="|".join(PLAIN["pretrained"]) or "none",


rule pretrained_measure:
    input:
        unpack(text_of_pretrained),
    output:
        pretrained_keys=f"{PRETRAINED_RUN}/pretrained_keys.parquet",
        attention_ceilings=f"{PRETRAINED_RUN}/attention_ceilings.parquet",
        token_ceilings=f"{PRETRAINED_RUN}/token_ceilings.parquet",
    log:
        f"{RUN}/logs/pretrained_measure/{{pretrained}}.log",
    benchmark:
        f"{RUN}/benchmarks/pretrained_measure/{{pretrained}}.tsv"
    threads: 1
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(120),
    params:
        settings=lambda wildcards: PLAIN["pretrained"][wildcards.pretrained],
        code=code("measure_pretrained.py"),
    script:
        "../scripts/measure_pretrained.py"


rule pretrained_tables:
    input:
        [f"{RUN}/runs/pretrained/{model}/{{file}}.parquet" for model in PLAIN["pretrained"]],
    output:
        f"{RUN}/parquet/{{file}}.parquet",
    log:
        f"{RUN}/logs/pretrained_tables/{{file}}.log",
    benchmark:
        f"{RUN}/benchmarks/pretrained_tables/{{file}}.tsv"
    wildcard_constraints:
        file="|".join(PRETRAINED_TABLES) or "none",
    params:
        table=lambda wildcards: wildcards.file,
        settings=PLAIN["pretrained"],
        identities=[{"model": model, "settings": settings} for model, settings in PLAIN["pretrained"].items()],
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


BENCHMARKS += benchmark_files("pretrained_measure", PLAIN["pretrained"]) if PLAIN["pretrained"] else []
BENCHMARKS += benchmark_files("pretrained_tables", PRETRAINED_TABLES) if PLAIN["pretrained"] else []
