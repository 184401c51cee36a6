# The language models (Figure 4, Tables 1 to 4): training in batches of runs, then measuring what was trained.
MODELS = THIS.training["language_model"]


rule language_model_train:
    input:
        plan=f"{RUN}/plan/language_model/{{batch}}.json",
        done=done("language_model/{batch}"),
        manifest=ancient(lambda wildcards: THIS.text_of(MODELS[wildcards.batch])["manifest"]),
        text=ancient(lambda wildcards: [*THIS.text_of(MODELS[wildcards.batch]).values()]),
        downloads=ancient(
            lambda wildcards: THIS.downloaded(THIS.labelled_sources(MODELS[wildcards.batch].group))
        ),
    output:
        origin=f"{RUN}/origin/language_model/{{batch}}.json",
        metrics=f"{RUN}/runs/language_model/{{batch}}/language_model_metrics.parquet",
        attention=f"{RUN}/runs/language_model/{{batch}}/language_model_attention.parquet",
        weights=f"{RUN}/runs/language_model/{{batch}}/weights.safetensors",
    log:
        f"{RUN}/logs/language_model/{{batch}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model/{{batch}}.tsv"
    threads: THIS.settings.threads_per_training
    resources:
        gpu=THIS.gpus,
        mem_mb=doubling(4000 if THIS.gpus else 1500),
        runtime=lambda wildcards, attempt: MODELS[wildcards.batch].minutes * 2 ** (attempt - 1),
    script:
        "../scripts/train_language_model.py"


rule language_model_measure:
    input:
        plan=f"{RUN}/plan/measure/{{batch}}.json",
        done=done("measure/{batch}"),
        weights=ancient(rules.language_model_train.output.weights),
        manifest=ancient(lambda wildcards: THIS.text_of(MODELS[wildcards.batch])["manifest"]),
        text=ancient(lambda wildcards: [*THIS.text_of(MODELS[wildcards.batch]).values()]),
    output:
        origin=f"{RUN}/origin/measure/{{batch}}.json",
        key_selectability=f"{RUN}/runs/measure/{{batch}}/key_selectability.parquet",
        sentence_tokens=f"{RUN}/runs/measure/{{batch}}/sentence_tokens.parquet",
        language_model_ones_share=f"{RUN}/runs/measure/{{batch}}/language_model_ones_share.parquet",
        language_model_ceilings=f"{RUN}/runs/measure/{{batch}}/language_model_ceilings.parquet",
        samples=f"{RUN}/runs/measure/{{batch}}/samples.safetensors",
    log:
        f"{RUN}/logs/measure/{{batch}}.log",
    benchmark:
        f"{RUN}/benchmarks/measure/{{batch}}.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(30),
    script:
        "../scripts/measure_language_model.py"
