# What a user can ask for: `snakemake --cores all TARGET`, with the options after the target.
TARGETS = {
    "all": "The whole reproduction: every table, figure and verdict, and the page that shows them.",
    "majority": "Train on the majority task; Figures 1a, 1b, 2a, 2b and 3 of the paper, and what each experiment shows.",
    "random_keys": "Test which random keys no query selects: Figures 1c and 1d, beside the exact expectation, by dimension.",
    "language_model": "Train the language models; Figure 4, Tables 1 to 4, and which keys of their heads a query can select.",
    "pretrained": "Measure in pretrained models which keys of the heads a query can select, and their largest attention.",
    "statements": "Measure what documents other than the paper say about LayerNorm, with a figure for each statement.",
    "verdicts": "Judge every claim by all results, and show the verdicts in figures and tables.",
    "published_figures": "Draw the figures and tables of results/published/ again from its Parquet files, without training.",
    "compare": "Put the verdicts of finished results beside those of others, with --config against=published.",
    "publish": "Replace results/published/ by the results of this configuration, which must be finished.",
    "check": "Check that no file of results is damaged, and that all were made with these settings and this code.",
    "readme": "Write the findings of results/published/ into README.md.",
    "help": "Print this list of the targets that can be asked for.",
}
HERE = THIS.exhibits

# Each draws the figures and readable tables of one part of the evidence, so that it can be had without the others.
for PART in ("majority", "random_keys", "language_model", "pretrained", "statements", "verdicts"):

    rule:
        name:
            PART
        input:
            plan=f"{RUN}/plan/draw/{PART}.json",
            done=done(f"draw/{PART}"),
            tables=ancient(HERE.read_by(PART)),
            settings=ancient(f"{RUN}/settings.json"),
        output:
            [*shown(HERE, PART)],
            origin=f"{RUN}/origin/draw/{PART}.json",
        log:
            f"{RUN}/logs/draw/{PART}.log",
        benchmark:
            f"{RUN}/benchmarks/draw/{PART}.tsv"
        priority: int(PART == "random_keys")  # the first figures of a reproduction, within minutes
        resources:
            mem_mb=doubling(2000),
            runtime=doubling(10),
        script:
            "../scripts/draw.py"


rule published_figures:
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


# `compare`, `publish` and `check` have no inputs, so that an unfinished reproduction is refused instead of finished.
rule compare:
    log:
        f"{RUN}/logs/compare.log",
    localrule: True
    params:
        folder=lambda wildcards: RUN,
        against=AGAINST,
    script:
        "../scripts/compare.py"


rule publish:
    log:
        f"{RUN}/logs/publish.log",
    localrule: True
    params:
        folder=lambda wildcards: RUN,
        kept=KEPT.folder,
        plan=THIS.plans["page"]
        | {"files": [str(Path(file).relative_to(RUN)) for file in [*FINISHED, f"{RUN}/rules.json"]]},
    script:
        "../scripts/publish.py"


rule check:
    log:
        f"{RUN}/logs/check.log",
    localrule: True
    params:
        folder=lambda wildcards: RUN,
    script:
        "../scripts/check_files.py"


rule readme:
    input:
        claims=f"{KEPT.folder}/parquet/claims.parquet",
    log:
        f"{KEPT.folder}/logs/readme.log",
    localrule: True
    script:
        "../scripts/update_readme.py"


rule help:
    log:
        f"{RUN}/logs/help.log",
    localrule: True
    params:
        targets=TARGETS,
    script:
        "../scripts/print_targets.py"
