# What a user can ask for, beside `all`: `snakemake --cores all TARGET`, with the options after the target.
rule majority:
    """The majority task: Figures 1a, 1b, 2a, 2b and 3, those of every experiment, and their tables."""
    input:
        planning.room_files(ROOMS, "majority", RUN),


rule random_keys:
    """Random keys: Figures 1c and 1d, the comparison with the exact expectation, and the law of widths."""
    input:
        planning.room_files(ROOMS, "random_keys", RUN),


rule language_model:
    """The language models: Figure 4, Tables 1 to 4, and the keys of the heads."""
    input:
        planning.room_files(ROOMS, "language_model", RUN),


rule pretrained:
    """Pretrained models: which keys of their heads can win, and how much attention they can get."""
    input:
        planning.room_files(ROOMS, "pretrained", RUN),


rule statements:
    """What other documents say about LayerNorm: a figure for each statement that was measured."""
    input:
        planning.room_files(ROOMS, "statements", RUN),


rule evidence:
    """Every verdict, and the page that shows them: results/<name>/report.html."""
    input:
        f"{RUN}/report.html",


rule published_figures:
    """The figures and tables of the kept reproduction, drawn again from its Parquet files without training."""
    input:
        f"{KEPT.folder}/settings.json",  # without it there is no kept reproduction
        [file for room in KEPT_ROOMS for file in room.files(KEPT.folder)],


rule published_report:
    """The page of the kept reproduction, written again from its Parquet files."""
    input:
        f"{KEPT.folder}/report.html",


rule compare:
    """This reproduction beside another: with --config against=published it makes results/<name>/compare_published.csv and .md."""
    input:
        compared,


# `publish` has no inputs, so that an unfinished reproduction is refused instead of finished.
rule publish:
    """Replace results/published/ by this reproduction, which must be finished."""
    log:
        f"{RUN}/logs/publish.log",
    params:
        run=RUN,
        kept=KEPT.folder,
        settings=PLAIN,
        tables=["claims", *RESULT_TABLES],
        figures=[name for room in ROOMS for name in room.figures],
        files=["rules.json", *(str(Path(file).relative_to(RUN)) for file in FINISHED)],
    script:
        "../scripts/publish.py"


rule check:
    """Compare every file of this reproduction with its checksum, and name those to delete."""
    log:
        f"{RUN}/logs/check.log",
    params:
        run=RUN,
        outdated=lambda wildcards: [*outdated()],
    script:
        "../scripts/check_files.py"


rule readme:
    """Put what results/published/ found into README.md."""
    input:
        f"{KEPT.folder}/parquet/claims.parquet",
        f"{KEPT.folder}/settings.json",
    log:
        f"{KEPT.folder}/logs/readme.log",
    params:
        code=code("update_readme.py"),
    script:
        "../scripts/update_readme.py"


rule help:
    """This list of what can be asked for."""
    log:
        f"{RUN}/logs/help.log",
    params:
        targets=lambda wildcards: {rule.name: rule.docstring for rule in workflow.rules if rule.docstring},
    script:
        "../scripts/print_targets.py"


localrules:
    publish,
    check,
    readme,
    help,
