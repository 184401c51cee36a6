# The texts of the language models: for each its tokenizer, token streams for training and validation, the contexts whose
# keys are tested, and a manifest of what was used. What comes from the Hugging Face hub is downloaded before.


# It runs where the workflow was started, because the machines of a cluster often have no network.
rule download:
    input:
        differs=differs("download/{download}"),
    output:
        origin=f"{FOLDER}/origin/download/{{download}}.json",
        rows=f"{FOLDER}/data/downloads/{{download}}",
    log:
        f"{FOLDER}/logs/download/{{download}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/download/{{download}}.tsv"
    retries: 2
    localrule: True
    params:
        plan=planned("download/{download}"),
    script:
        "../scripts/download_text.py"


rule text:
    input:
        differs=differs("text/{text}"),
        corpus=or_end(lambda wildcards: REPRODUCTION.corpus_files(wildcards.text)),
        downloads=lambda wildcards: REPRODUCTION.downloaded(REPRODUCTION.text_sources(wildcards.text)),
    output:
        **REPRODUCTION.text_files("{text}"),
        origin=f"{FOLDER}/origin/text/{{text}}.json",
    log:
        f"{FOLDER}/logs/text/{{text}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/text/{{text}}.tsv"
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(120),
    params:
        plan=planned("text/{text}"),
    script:
        "../scripts/prepare_text.py"
