# The language models (Figure 4, Tables 1 to 4): training, verdicts on their keys, activations, aggregation.
LANGUAGE_MODEL_RUN = f"{RUN}/runs/language_model/{{model}}/{{variant}}/seed_{{seed}}"

# For each table that is collected from runs: its schema, the file in the folder of a run, and the models whose runs count.
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
        tokenizer=rules.text.output.tokenizer,
        training=rules.text.output.training,
        validation=rules.text.output.validation,
        contexts=rules.text.output.contexts,
        manifest=rules.text.output.manifest,
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
        gpu=PLAN.gpus,
        mem_mb=memory(1500, beside_gpu=4000),
        runtime="6h",
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        device=PLAN.device,
        code=code("train_language_model.py"),
    script:
        "../scripts/train_language_model.py"


rule language_model_keys:
    input:
        initial=rules.language_model_train.output.initial,
        final=rules.language_model_train.output.final,
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
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        code=code("collect_keys.py"),
    script:
        "../scripts/collect_keys.py"


rule language_model_activations:
    input:
        final=rules.language_model_train.output.final,
        tokenizer=rules.text.output.tokenizer,
        contexts=rules.text.output.contexts,
        manifest=rules.text.output.manifest,
    output:
        f"{LANGUAGE_MODEL_RUN}/activations.safetensors",
    log:
        f"{RUN}/logs/language_model_activations/{{model}}/{{variant}}/seed_{{seed}}.log",
    benchmark:
        f"{RUN}/benchmarks/language_model_activations/{{model}}/{{variant}}/seed_{{seed}}.tsv"
    threads: 1
    resources:
        mem_mb=memory(2000),
    params:
        settings=lambda wildcards: PLAN.run_settings("language_model", wildcards.model),
        norm=lambda wildcards: PLAN.norm_class(wildcards.variant),
        block_contexts=PLAIN["statements"]["fusion"]["contexts"],
        head_contexts=PLAIN["statements"]["score_scale"]["contexts"],
        norm_code=lambda wildcards: PLAN.norm_version(wildcards.variant),
        code=code("record_activations.py"),
    script:
        "../scripts/record_activations.py"


rule language_model_tables:
    input:
        lambda wildcards: PLAN.run_files("language_model", *LANGUAGE_MODEL_TABLES[wildcards.file][1:]),
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
        settings=PLAIN["language_model"],
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


LANGUAGE_MODEL_RUNS = [run.folder for run in PLAN.runs("language_model")]
BENCHMARKS += job_files("benchmarks", "language_model_train", LANGUAGE_MODEL_RUNS)
BENCHMARKS += job_files("benchmarks", "language_model_keys", LANGUAGE_MODEL_RUNS)
BENCHMARKS += job_files("benchmarks", "language_model_tables", LANGUAGE_MODEL_TABLES)
