# Pretrained models: which keys of their heads can win, and how much attention they can get.
PRETRAINED_RUN = f"{RUN}/runs/pretrained/{{pretrained}}"
PRETRAINED_TABLES = (
    ["pretrained_keys", "attention_ceilings", "token_ceilings", "ones_share", "projection_shift"]
    if PLAIN["pretrained"]
    else []
)


wildcard_constraints:
    pretrained="|".join(PLAIN["pretrained"]) or "none",


rule pretrained_measure:
    input:
        unpack(or_end(lambda wildcards: PLAN.text_of_pretrained(wildcards.pretrained))),
    output:
        pretrained_keys=f"{PRETRAINED_RUN}/pretrained_keys.parquet",
        attention_ceilings=f"{PRETRAINED_RUN}/attention_ceilings.parquet",
        token_ceilings=f"{PRETRAINED_RUN}/token_ceilings.parquet",
        ones_share=f"{PRETRAINED_RUN}/ones_share.parquet",
        projection_shift=f"{PRETRAINED_RUN}/projection_shift.parquet",
    log:
        f"{RUN}/logs/pretrained_measure/{{pretrained}}.log",
    benchmark:
        f"{RUN}/benchmarks/pretrained_measure/{{pretrained}}.tsv"
    resources:
        **asking(3000, 60),
    params:
        settings=lambda wildcards: PLAIN["pretrained"][wildcards.pretrained],
        code=code("measure_pretrained.py"),
    script:
        "../scripts/measure_pretrained.py"


for TABLE in PRETRAINED_TABLES:
    COLLECTED[TABLE] = planning.Collected(
        [f"{RUN}/runs/pretrained/{model}/{TABLE}.parquet" for model in PLAIN["pretrained"]],
        PLAIN["pretrained"],
        [{"model": model, "settings": settings} for model, settings in PLAIN["pretrained"].items()],
    )
BENCHMARKS += PLAN.benchmark_files("pretrained_measure", PLAIN["pretrained"])
