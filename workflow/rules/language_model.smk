# The language models (Figure 4, Tables 1 to 4): training in batches of runs, then measuring what was trained.
MODELS = REPRODUCTION.training["language_model"]


rule language_model_train:
    input:
        differs=differs("language_model_train/{batch}"),
        manifest=lambda wildcards: REPRODUCTION.text_of(MODELS[wildcards.batch])["manifest"],
        text=lambda wildcards: [*REPRODUCTION.text_of(MODELS[wildcards.batch]).values()],
        downloads=lambda wildcards: REPRODUCTION.downloaded(
            REPRODUCTION.labelled_sources(MODELS[wildcards.batch].group)
        ),
    output:
        origin=f"{FOLDER}/origin/language_model_train/{{batch}}.json",
        metrics=f"{FOLDER}/runs/language_model_train/{{batch}}/language_model_metrics.parquet",
        attention=f"{FOLDER}/runs/language_model_train/{{batch}}/language_model_attention.parquet",
        weights=f"{FOLDER}/runs/language_model_train/{{batch}}/weights.safetensors",
    log:
        f"{FOLDER}/logs/language_model_train/{{batch}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/language_model_train/{{batch}}.tsv"
    threads: REPRODUCTION.settings.threads_per_training
    resources:
        gpu=REPRODUCTION.gpus,
        mem_mb=doubling(4000 if REPRODUCTION.gpus else 1500),
        runtime=doubling_minutes(MODELS),
    params:
        plan=planned("language_model_train/{batch}"),
    script:
        "../scripts/train_language_model.py"


rule language_model_measure:
    input:
        differs=differs("language_model_measure/{batch}"),
        weights=rules.language_model_train.output.weights,
        manifest=lambda wildcards: REPRODUCTION.text_of(MODELS[wildcards.batch])["manifest"],
        text=lambda wildcards: [*REPRODUCTION.text_of(MODELS[wildcards.batch]).values()],
    output:
        origin=f"{FOLDER}/origin/language_model_measure/{{batch}}.json",
        key_selectability=f"{FOLDER}/runs/language_model_measure/{{batch}}/key_selectability.parquet",
        sentence_tokens=f"{FOLDER}/runs/language_model_measure/{{batch}}/sentence_tokens.parquet",
        language_model_ones_share=f"{FOLDER}/runs/language_model_measure/{{batch}}/language_model_ones_share.parquet",
        language_model_ceilings=f"{FOLDER}/runs/language_model_measure/{{batch}}/language_model_ceilings.parquet",
        samples=f"{FOLDER}/runs/language_model_measure/{{batch}}/samples.safetensors",
    log:
        f"{FOLDER}/logs/language_model_measure/{{batch}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/language_model_measure/{{batch}}.tsv"
    group:
        "language_model_measure"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(30),
    params:
        plan=planned("language_model_measure/{batch}"),
    script:
        "../scripts/measure_language_model.py"


rule language_model_gradients:
    input:
        differs=differs("language_model_gradients/{model}"),
        manifest=lambda wildcards: REPRODUCTION.text_files(
            REPRODUCTION.settings.language_model[wildcards.model].text
        )["manifest"],
        text=lambda wildcards: [
            *REPRODUCTION.text_files(REPRODUCTION.settings.language_model[wildcards.model].text).values()
        ],
    output:
        origin=f"{FOLDER}/origin/language_model_gradients/{{model}}.json",
        table=f"{FOLDER}/runs/language_model_gradients/{{model}}/language_model_gradients.parquet",
    params:
        plan=planned("language_model_gradients/{model}"),
    log:
        f"{FOLDER}/logs/language_model_gradients/{{model}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/language_model_gradients/{{model}}.tsv"
    script:
        "../scripts/measure_gradients.py"
