# The texts of the language models: for each its tokenizer, token streams for training and validation, the contexts whose
# keys are tested, and a manifest of what was used. What comes from the Hugging Face hub is downloaded before.


# It runs where the workflow was started, because the machines of a cluster often have no network.
rule download:
    input:
        plan=f"{RUN}/plan/download/{{download}}.json",
        done=done("download/{download}"),
    output:
        origin=f"{RUN}/origin/download/{{download}}.json",
        rows=f"{RUN}/data/downloads/{{download}}",
    log:
        f"{RUN}/logs/download/{{download}}.log",
    benchmark:
        f"{RUN}/benchmarks/download/{{download}}.tsv"
    retries: 2
    localrule: True
    script:
        "../scripts/download_text.py"


rule text:
    input:
        plan=f"{RUN}/plan/text/{{text}}.json",
        done=done("text/{text}"),
        corpus=ancient(or_end(lambda wildcards: THIS.corpus_files(wildcards.text))),
        downloads=ancient(lambda wildcards: THIS.downloaded(THIS.text_sources(wildcards.text))),
    output:
        **THIS.text_files("{text}"),
        origin=f"{RUN}/origin/text/{{text}}.json",
    log:
        f"{RUN}/logs/text/{{text}}.log",
    benchmark:
        f"{RUN}/benchmarks/text/{{text}}.tsv"
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(120),
    script:
        "../scripts/prepare_text.py"
