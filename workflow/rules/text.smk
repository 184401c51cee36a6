# The texts of the language models: for each its tokenizer, token streams for training and validation, the contexts whose
# keys are tested, and a manifest of what was used.
TEXT = f"{RUN}/data/text/{{text}}"


rule text:
    input:
        lambda wildcards: PLAN.corpus_files(wildcards.text),
    output:
        tokenizer=f"{TEXT}/tokenizer.json",
        training=f"{TEXT}/training.npy",
        validation=f"{TEXT}/validation.npy",
        contexts=f"{TEXT}/contexts.parquet",
        manifest=f"{TEXT}/manifest.json",
    log:
        f"{RUN}/logs/text/{{text}}.log",
    benchmark:
        f"{RUN}/benchmarks/text/{{text}}.tsv"
    resources:
        mem_mb=memory(1500),
        runtime="2h",
    params:
        settings=lambda wildcards: PLAIN["text"][wildcards.text],
        code=code("prepare_text.py"),
    script:
        "../scripts/prepare_text.py"


def text_files(text, *names):
    """The files `names` of a text, as rule `text` names its outputs, by name."""
    return {name: rules.text.output.get(name).format(text=text) for name in names}


BENCHMARKS += job_files("benchmarks", "text", PLAN.texts())
