# Verdicts, figures, readable tables and the page: for this reproduction, and again for the kept one, results/published/,
# of whose Parquet tables the rules make claims.parquet alone.
RESULT_TABLES = [
    "majority_metrics",
    "majority_vectors",
    "random_keys",
    "random_keys_precision",
    "gaussian_law",
    *LANGUAGE_MODEL_TABLES,
    *STATEMENT_TABLES,
    *PRETRAINED_TABLES,
]

# The files of a finished reproduction, but for its page.
FINISHED = [
    f"{RUN}/settings.json",
    *parquet(RUN, ["claims", *RESULT_TABLES]).values(),
    *figure_files(RUN, [*PLAN.figures(), "durations"]),
    *readable(RUN, tables_registry.made_from(RESULT_TABLES) | {"durations": tables_registry.DURATIONS}),
]

# Modules that write_page.py imports by a name made at run time: the page sets the readable tables in HTML.
TABLE_MODULES = [
    f"evidence/tables/{module}.py"
    for module in [*by_module(tables_registry.TABLES), tables_registry.DURATIONS.module]
]

# For each of the two reproductions: its folder, the prefix of its rules' names, its figures, Parquet tables and settings.
REPRODUCTIONS = [
    (RUN, "", PLAN.figures(), RESULT_TABLES, PLAIN),
    (KEPT.folder, "published_", KEPT.figures(), KEPT.tables(), KEPT.plain),
]

for FOLDER, PREFIX, FIGURES, TABLES, SETTINGS in REPRODUCTIONS:

    rule:
        name:
            f"{PREFIX}claims"
        input:
            **parquet(FOLDER, TABLES),
        output:
            f"{FOLDER}/parquet/claims.parquet",
        log:
            f"{FOLDER}/logs/claims.log",
        benchmark:
            f"{FOLDER}/benchmarks/claims.tsv"
        params:
            code=code("judge_claims.py"),
        script:
            "../scripts/judge_claims.py"

    for MODULE, ENTRIES in by_module(FIGURES).items():

        rule:
            name:
                f"{PREFIX}figures_{MODULE.replace('.', '_')}"
            input:
                **parquet(FOLDER, sorted({table for entry in ENTRIES.values() for table in entry.tables})),
            output:
                drawn(FOLDER, ENTRIES),
            log:
                f"{FOLDER}/logs/figures/{MODULE}.log",
            benchmark:
                f"{FOLDER}/benchmarks/figures/{MODULE}.tsv"
            params:
                settings={part: SETTINGS.get(part) for part in figures_registry.SECTIONS},
                code=code("draw_figures.py", f"evidence/figures/{MODULE.replace('.', '/')}.py"),
            script:
                "../scripts/draw_figures.py"

    for MODULE, ENTRIES in by_module(tables_registry.made_from(TABLES)).items():

        rule:
            name:
                f"{PREFIX}tables_{MODULE}"
            input:
                **parquet(FOLDER, sorted({table for entry in ENTRIES.values() for table in entry.inputs})),
            output:
                readable(FOLDER, ENTRIES),
            log:
                f"{FOLDER}/logs/tables/{MODULE}.log",
            benchmark:
                f"{FOLDER}/benchmarks/tables/{MODULE}.tsv"
            params:
                code=code("write_tables.py", f"evidence/tables/{MODULE}.py"),
            script:
                "../scripts/write_tables.py"

    rule:
        name:
            f"{PREFIX}page"
        input:
            **parquet(FOLDER, ["claims", *TABLES]),
            figures=[f"{FOLDER}/figures/{name}.png" for name in FIGURES],
            durations=f"{FOLDER}/tables/durations.csv",
        output:
            f"{FOLDER}/report.html",
        log:
            f"{FOLDER}/logs/page.log",
        benchmark:
            f"{FOLDER}/benchmarks/page.tsv"
        params:
            tables=["claims", *TABLES],
            figures=[*FIGURES],
            settings=SETTINGS,
            options=planning.command_options(Path(FOLDER).name, WORKFLOW / "presets"),
            code=code("write_page.py", *TABLE_MODULES),
        script:
            "../scripts/write_page.py"


rule durations:
    input:
        # When these tables are made, so are the benchmark files of all jobs that compute.
        **parquet(RUN, RESULT_TABLES),
    output:
        csv=f"{RUN}/tables/durations.csv",
        md=f"{RUN}/tables/durations.md",
        png=f"{RUN}/figures/durations.png",
        pdf=f"{RUN}/figures/durations.pdf",
    log:
        f"{RUN}/logs/durations.log",
    params:
        benchmarks=BENCHMARKS,
        code=code("write_durations.py", "evidence/figures/durations.py", "evidence/tables/durations.py"),
    script:
        "../scripts/write_durations.py"


rule settings:
    output:
        f"{RUN}/settings.json",
    log:
        f"{RUN}/logs/settings.log",
    params:
        settings=PLAIN,
        code=code("write_settings.py"),
    script:
        "../scripts/write_settings.py"


# Snakemake makes what this reproduction lacks; of the other one it makes nothing, and runs no rule on its files.
if OTHER:

    rule comparison:
        input:
            **parquet(RUN, figures_registry.COMPARED),
            settings=rules.settings.output,
        output:
            page=f"{RUN}/compare_{Path(OTHER.folder).name}.html",
            table=f"{RUN}/parquet/compare_{Path(OTHER.folder).name}.parquet",
        log:
            f"{RUN}/logs/compare_{Path(OTHER.folder).name}.log",
        params:
            against=OTHER.folder,
            checksums=planning.checksums(OTHER.folder),
            options=planning.command_options(Path(RUN).name, WORKFLOW / "presets"),
            code=code("compare.py"),
        script:
            "../scripts/compare.py"


rule compare:
    """This reproduction beside another: with --config against=published it makes results/<name>/compare_published.html."""
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
        figures=[*PLAN.figures()],
        files=[str(Path(file).relative_to(RUN)) for file in FINISHED],
    script:
        "../scripts/publish.py"


rule check:
    """Compare every file of this reproduction with its checksum, and name those to delete."""
    log:
        f"{RUN}/logs/check.log",
    params:
        run=RUN,
    script:
        "../scripts/check_files.py"


rule readme:
    """Put the verdicts of results/published/, and the tree of the package, into README.md."""
    input:
        f"{KEPT.folder}/parquet/claims.parquet",
    log:
        f"{KEPT.folder}/logs/readme.log",
    params:
        package=str(SOURCE),
        code=code("update_readme.py"),
    script:
        "../scripts/update_readme.py"


localrules:
    settings,
    publish,
    check,
    readme,
