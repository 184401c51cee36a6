# Pretrained models: which keys of their heads a query can select, and how much attention they can get.
rule pretrained_measure:
    input:
        differs=differs("pretrained_measure/{model}"),
        manifest=lambda wildcards: REPRODUCTION.text_files(
            REPRODUCTION.settings.pretrained[wildcards.model].text
        )["manifest"],
        text=or_end(lambda wildcards: [*REPRODUCTION.text_of_pretrained(wildcards.model).values()]),
    output:
        origin=f"{FOLDER}/origin/pretrained_measure/{{model}}.json",
        pretrained_keys=f"{FOLDER}/runs/pretrained_measure/{{model}}/pretrained_keys.parquet",
        attention_ceilings=f"{FOLDER}/runs/pretrained_measure/{{model}}/attention_ceilings.parquet",
        token_ceilings=f"{FOLDER}/runs/pretrained_measure/{{model}}/token_ceilings.parquet",
        ones_share=f"{FOLDER}/runs/pretrained_measure/{{model}}/ones_share.parquet",
        projection_shift=f"{FOLDER}/runs/pretrained_measure/{{model}}/projection_shift.parquet",
    log:
        f"{FOLDER}/logs/pretrained_measure/{{model}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/pretrained_measure/{{model}}.tsv"
    resources:
        mem_mb=doubling(3000),
        runtime=doubling(60),
    params:
        plan=planned("pretrained_measure/{model}"),
    script:
        "../scripts/measure_pretrained.py"
