# The language models (Figure 4, Tables 1 to 4): training, key verdicts, aggregation, figures and tables.
LANGUAGE_MODEL_RUN = f"{RUN}/runs/language_model/{{model}}/{{variant}}/seed_{{seed}}"


# Each table of the whole run, and the files and models it is made of.
LANGUAGE_MODEL_TABLES = {
    "language_model_metrics": ("language_model_metrics", "metrics.parquet", "gpt"),
    "bert_metrics": ("language_model_metrics", "metrics.parquet", "bert"),
    "key_selectability": ("key_selectability", "keys.parquet", "gpt", "bert"),
    "sentence_tokens": ("sentence_tokens", "tokens.parquet", "gpt", "bert"),
}


wildcard_constraints:
    model="gpt|bert",


rule language_model_train:
    input:
        **{
            name: rules.text.output[name]
            for name in ("tokenizer", "training", "validation", "contexts", "manifest")
        },
    output:
        initial=f"{LANGUAGE_MODEL_RUN}/initial.safetensors",
        final=f"{LANGUAGE_MODEL_RUN}/final.safetensors",
        metrics=f"{LANGUAGE_MODEL_RUN}/metrics.parquet",
    log:
        f"{RUN}/logs/language_model_train/{{model}}/{{variant}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_train/{{model}}/{{variant}}/seed_{{seed}}.tsv"
    threads: 1
    resources:
        gpu=gpus(config),
        mem_mb=memory(1500, beside_gpu=4000),
        runtime="6h",
    params:
        settings=settings("language_model", "model"),
        norm=lambda wildcards: norm_class(config, wildcards.variant),
        norm_code=lambda wildcards: norm_code(wildcards.variant),
        device=device(),
        code=code("language_model", "checkpoint", "gpu", "norms", "text"),
    script:
        "../scripts/train_language_model.py"


rule language_model_keys:
    input:
        initial=f"{LANGUAGE_MODEL_RUN}/initial.safetensors",
        final=f"{LANGUAGE_MODEL_RUN}/final.safetensors",
        tokenizer=rules.text.output.tokenizer,
        contexts=rules.text.output.contexts,
        manifest=rules.text.output.manifest,
    output:
        verdicts=f"{LANGUAGE_MODEL_RUN}/keys.parquet",
        tokens=f"{LANGUAGE_MODEL_RUN}/tokens.parquet",
    log:
        f"{RUN}/logs/language_model_keys/{{model}}/{{variant}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_keys/{{model}}/{{variant}}/seed_{{seed}}.tsv"
    threads: 1
    resources:
        mem_mb=memory(1500),
        runtime="2h",
    params:
        settings=settings("language_model", "model"),
        norm=lambda wildcards: norm_class(config, wildcards.variant),
        norm_code=lambda wildcards: norm_code(wildcards.variant),
        code=code("language_model", "checkpoint", "gpu", "norms", "text", "selectability"),
    script:
        "../scripts/collect_keys.py"


rule language_model_tables:
    input:
        lambda wildcards: runs("language_model", *LANGUAGE_MODEL_TABLES[wildcards.file][1:]),
    output:
        f"{RUN}/parquet/{{file}}.parquet",
    log:
        f"{RUN}/logs/language_model_tables/{{file}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_tables/{{file}}.tsv"
    wildcard_constraints:
        file="|".join(LANGUAGE_MODEL_TABLES),
    params:
        table=lambda wildcards: LANGUAGE_MODEL_TABLES[wildcards.file][0],
        settings=config["language_model"],
    script:
        "../scripts/collect_tables.py"


# Drawn from the Parquet of any run, so that a kept one can be drawn again without training.
LANGUAGE_MODEL_FIGURES = ["4a", "4b", "4_difference", "heads", "bert_loss"]


rule language_model_figures:
    input:
        metrics="results/{run}/parquet/language_model_metrics.parquet",
        bert_metrics="results/{run}/parquet/bert_metrics.parquet",
        verdicts="results/{run}/parquet/key_selectability.parquet",
    output:
        drawings("Language models", *(f"figure_{name}" for name in LANGUAGE_MODEL_FIGURES)),
    log:
        "results/{run}/logs/language_model_figures.log",
    benchmark:
        "results/{run}/benchmarks/language_model_figures.tsv"
    params:
        figures=LANGUAGE_MODEL_FIGURES,
        code=code("evidence/language_model", "evidence/style"),
    script:
        "../scripts/draw_language_model.py"


rule language_model_reports:
    input:
        verdicts="results/{run}/parquet/key_selectability.parquet",
        tokens="results/{run}/parquet/sentence_tokens.parquet",
    output:
        expand("results/{{run}}/tables/table_{table}.{kind}", table=[1, 2, 3, 4], kind=["csv", "md"]),
    log:
        "results/{run}/logs/language_model_reports.log",
    benchmark:
        "results/{run}/benchmarks/language_model_reports.tsv"
    params:
        code=code("evidence/language_model"),
    script:
        "../scripts/tabulate_language_model.py"


rule language_model:
    input:
        expand(
            f"{RUN}/figures/figure_{{figure}}.{{kind}}", figure=LANGUAGE_MODEL_FIGURES, kind=["png", "pdf"]
        ),
        expand(f"{RUN}/tables/table_{{table}}.{{kind}}", table=[1, 2, 3, 4], kind=["csv", "md"]),
