# The texts of the language models: for each its tokenizer, token streams for training and validation, the contexts whose
# keys are tested, and a manifest of what was used. What comes from the Hugging Face hub is downloaded before.
DOWNLOADS = f"{RUN}/data/downloads"
HUB_SOURCES = {source.file_name: source for source in PLAN.hub_sources()}


wildcard_constraints:
    download="|".join(HUB_SOURCES) or "none",


# It runs where the workflow was started, because the machines of a cluster often have no network.
rule download:
    output:
        f"{DOWNLOADS}/{{download}}",
    log:
        f"{RUN}/logs/download/{{download}}.log",
    benchmark:
        f"{RUN}/benchmarks/download/{{download}}.tsv"
    retries: 2
    localrule: True
    params:
        source=lambda wildcards: HUB_SOURCES[wildcards.download].model_dump(mode="json"),
        code=code("download_text.py"),
    script:
        "../scripts/download_text.py"


rule text:
    input:
        or_end(lambda wildcards: PLAN.corpus_files(wildcards.text)),
        lambda wildcards: PLAN.downloaded(PLAN.text_sources(wildcards.text)),
    output:
        **PLAN.text_files("{text}", *planning.TEXT_FILES),
    log:
        f"{RUN}/logs/text/{{text}}.log",
    benchmark:
        f"{RUN}/benchmarks/text/{{text}}.tsv"
    resources:
        **asking(1500, 120),
    params:
        settings=lambda wildcards: PLAIN["text"][wildcards.text],
        seed=PLAIN["first_seed"],
        downloads=DOWNLOADS,
        code=code("prepare_text.py"),
    script:
        "../scripts/prepare_text.py"


BENCHMARKS += PLAN.benchmark_files("text", PLAN.texts())
BENCHMARKS += PLAN.benchmark_files("download", HUB_SOURCES)
