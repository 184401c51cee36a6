# Pretrained models: which keys of their heads a query can select, and how much attention they can get.
rule pretrained_measure:
    input:
        plan=f"{RUN}/plan/pretrained/{{model}}.json",
        done=done("pretrained/{model}"),
        manifest=ancient(
            lambda wildcards: THIS.text_files(THIS.settings.pretrained[wildcards.model].text)["manifest"]
        ),
        text=ancient(or_end(lambda wildcards: [*THIS.text_of_pretrained(wildcards.model).values()])),
    output:
        origin=f"{RUN}/origin/pretrained/{{model}}.json",
        pretrained_keys=f"{RUN}/runs/pretrained/{{model}}/pretrained_keys.parquet",
        attention_ceilings=f"{RUN}/runs/pretrained/{{model}}/attention_ceilings.parquet",
        token_ceilings=f"{RUN}/runs/pretrained/{{model}}/token_ceilings.parquet",
        ones_share=f"{RUN}/runs/pretrained/{{model}}/ones_share.parquet",
        projection_shift=f"{RUN}/runs/pretrained/{{model}}/projection_shift.parquet",
    log:
        f"{RUN}/logs/pretrained/{{model}}.log",
    benchmark:
        f"{RUN}/benchmarks/pretrained/{{model}}.tsv"
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(60),
    script:
        "../scripts/measure_pretrained.py"
