# What a user can ask for, beside `all`: `snakemake --cores all TARGET`, with the options after the target. The first six
# draw the figures and readable tables of one part of the evidence, so that each can be had without the others.
HERE = THIS.exhibits


rule majority:
    """Train on the majority task; Figures 1a, 1b, 2a, 2b and 3 of the paper, and what each experiment shows."""
    input:
        plan=f"{RUN}/plan/draw/majority.json",
        done=done("draw/majority"),
        tables=ancient(HERE.read_by("majority")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "majority")],
        origin=f"{RUN}/origin/draw/majority.json",
    log:
        f"{RUN}/logs/draw/majority.log",
    benchmark:
        f"{RUN}/benchmarks/draw/majority.tsv"
    resources:
        mem_mb=doubling(2000),
        runtime=doubling(10),
    script:
        "../scripts/draw.py"


use rule majority as random_keys with:
    """Test which random keys no query selects: Figures 1c and 1d, and how many keys it takes, by dimension."""
    input:
        plan=f"{RUN}/plan/draw/random_keys.json",
        done=done("draw/random_keys"),
        tables=ancient(HERE.read_by("random_keys")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "random_keys")],
        origin=f"{RUN}/origin/draw/random_keys.json",
    log:
        f"{RUN}/logs/draw/random_keys.log",
    benchmark:
        f"{RUN}/benchmarks/draw/random_keys.tsv"
    priority: 1


use rule majority as language_model with:
    """Train the language models; Figure 4, Tables 1 to 4, and which keys of their heads a query can select."""
    input:
        plan=f"{RUN}/plan/draw/language_model.json",
        done=done("draw/language_model"),
        tables=ancient(HERE.read_by("language_model")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "language_model")],
        origin=f"{RUN}/origin/draw/language_model.json",
    log:
        f"{RUN}/logs/draw/language_model.log",
    benchmark:
        f"{RUN}/benchmarks/draw/language_model.tsv"


use rule majority as pretrained with:
    """Measure in pretrained models which keys of the heads a query can select, and their largest attention."""
    input:
        plan=f"{RUN}/plan/draw/pretrained.json",
        done=done("draw/pretrained"),
        tables=ancient(HERE.read_by("pretrained")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "pretrained")],
        origin=f"{RUN}/origin/draw/pretrained.json",
    log:
        f"{RUN}/logs/draw/pretrained.log",
    benchmark:
        f"{RUN}/benchmarks/draw/pretrained.tsv"


use rule majority as statements with:
    """Measure what documents other than the paper say about LayerNorm; figures of its geometry and its place."""
    input:
        plan=f"{RUN}/plan/draw/statements.json",
        done=done("draw/statements"),
        tables=ancient(HERE.read_by("statements")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "statements")],
        origin=f"{RUN}/origin/draw/statements.json",
    log:
        f"{RUN}/logs/draw/statements.log",
    benchmark:
        f"{RUN}/benchmarks/draw/statements.tsv"


use rule majority as verdicts with:
    """Judge every claim by all results, and show the verdicts in figures and tables."""
    input:
        plan=f"{RUN}/plan/draw/verdicts.json",
        done=done("draw/verdicts"),
        tables=ancient(HERE.read_by("verdicts")),
        settings=ancient(f"{RUN}/settings.json"),
    output:
        [*shown(HERE, "verdicts")],
        origin=f"{RUN}/origin/draw/verdicts.json",
    log:
        f"{RUN}/logs/draw/verdicts.log",
    benchmark:
        f"{RUN}/benchmarks/draw/verdicts.tsv"


rule published_figures:
    """Draw the figures and tables of results/published/ again from its Parquet files, without training."""
    input:
        plan=f"{KEPT.folder}/plan/draw.json",
        done=done("draw", KEPT.name),
        tables=ancient(KEPT.judged),
    output:
        [*shown(KEPT)],
        origin=f"{KEPT.folder}/origin/draw.json",
    log:
        f"{KEPT.folder}/logs/draw.log",
    benchmark:
        f"{KEPT.folder}/benchmarks/draw.tsv"
    script:
        "../scripts/draw.py"


# `publish` and `check` have no inputs, so that an unfinished reproduction is refused instead of finished.
rule publish:
    """Replace results/published/, by these results, which must be finished."""
    log:
        f"{RUN}/logs/publish.log",
    localrule: True
    params:
        folder=lambda wildcards: RUN,
        kept=KEPT.folder,
        plan=JOBS["page"] | {"files": [str(Path(file).relative_to(RUN)) for file in FINISHED]},
    script:
        "../scripts/publish.py"


rule check:
    """Check that no file of results is damaged, and that all were made with these settings and this code."""
    log:
        f"{RUN}/logs/check.log",
    localrule: True
    params:
        folder=lambda wildcards: RUN,
    script:
        "../scripts/check_files.py"


rule readme:
    """Write the findings of results/published/ into README.md."""
    input:
        claims=f"{KEPT.folder}/parquet/claims.parquet",
    log:
        f"{KEPT.folder}/logs/readme.log",
    localrule: True
    script:
        "../scripts/update_readme.py"


rule help:
    """Print this list of the targets that can be asked for."""
    log:
        f"{RUN}/logs/help.log",
    localrule: True
    params:
        rules=[str(REPOSITORY / file) for file in ("Snakefile", "workflow/rules/targets.smk")],
    script:
        "../scripts/print_targets.py"
