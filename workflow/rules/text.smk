# The corpus: token streams for training and validation, held-out contexts, and what exactly was used.
TEXT = f"{RUN}/data/text"


rule text:
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
        settings=config["text"],
        code=code("text"),
    script:
        "../scripts/prepare_text.py"
