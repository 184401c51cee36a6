# What a user can ask for, beside `all`: `snakemake --cores all TARGET`, with the options after the target. The first six
# are the parts of the evidence, so that each can be had without the others.
rule majority:
    """Train on the majority task; Figures 1a, 1b, 2a, 2b and 3 of the paper, and what each experiment shows."""
    input:
        part("majority"),


rule random_keys:
    """Test which random keys no query selects: Figures 1c and 1d, and how many keys it takes, by dimension."""
    input:
        part("random_keys"),


rule language_model:
    """Train the language models; Figure 4, Tables 1 to 4, and which keys of their heads a query can select."""
    input:
        part("language_model"),


rule pretrained:
    """Measure in pretrained models which keys of the heads a query can select, and their largest attention."""
    input:
        part("pretrained"),


rule statements:
    """Measure what documents other than the paper say about LayerNorm; figures of its geometry and its place."""
    input:
        part("statements"),


rule verdicts:
    """Judge every claim by all results, and show the verdicts in figures and tables."""
    input:
        part("verdicts"),


rule published_figures:
    """Draw the figures and tables of results/published/ again from its Parquet files, without training."""
    input:
        KEPT.files,


# `check` has no inputs, so that an unfinished reproduction is looked at instead of finished.
rule check:
    """Check that no file of results is damaged, and that all were made with these settings and this code."""
    log:
        f"{FOLDER}/logs/check.log",
    localrule: True
    params:
        plans=PLANS[NAME],
    script:
        "../scripts/check_files.py"


rule readme:
    """Write the findings of results/published/ into README.md."""
    input:
        claims=f"{KEPT.folder}/parquet/claims.parquet",
        comparisons=f"{KEPT.folder}/parquet/comparisons.parquet",
        figures=KEPT.pictures,  # to which the scoreboard links
    log:
        f"{KEPT.folder}/logs/readme.log",
    localrule: True
    script:
        "../scripts/update_readme.py"


rule help:
    """Print this list of the targets that can be asked for."""
    log:
        f"{FOLDER}/logs/help.log",
    localrule: True
    params:
        rules=[str(REPOSITORY / file) for file in ("Snakefile", "workflow/rules/targets.smk")],
    script:
        "../scripts/print_targets.py"
