# The text of the language models: its tokenizer, token streams for training and validation, the contexts whose keys are
# tested, and a manifest of what was used.
TEXT = f"{RUN}/data/text"


rule text:
    input:
        PLAN.corpus_files(),
    output:
        tokenizer=f"{TEXT}/tokenizer.json",
        training=f"{TEXT}/training.npy",
        validation=f"{TEXT}/validation.npy",
        contexts=f"{TEXT}/contexts.parquet",
        manifest=f"{TEXT}/manifest.json",
    log:
        f"{RUN}/logs/text.log",
    benchmark:
        f"{RUN}/benchmarks/text.tsv"
    resources:
        mem_mb=memory(1500),
        runtime="2h",
    params:
        settings=PLAIN["text"],
        code=code("prepare_text.py"),
    script:
        "../scripts/prepare_text.py"


BENCHMARKS += job_files("benchmarks", "text")
