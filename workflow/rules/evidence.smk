# The tables of all runs; and verdicts, figures, readable tables and the page: for this reproduction, and again for the
# kept one, results/published/, of whose Parquet tables the rules make claims.parquet alone.
rule tables:
    input:
        lambda wildcards: COLLECTED[wildcards.table].files,
    output:
        f"{RUN}/parquet/{{table}}.parquet",
    log:
        f"{RUN}/logs/tables/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/tables/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(COLLECTED),
    group:
        "tables"
    resources:
        **asking(1500, 5),
    params:
        table="{table}",
        settings=lambda wildcards: COLLECTED[wildcards.table].settings,
        identities=lambda wildcards: COLLECTED[wildcards.table].identities,
        code=code("collect_tables.py"),
    script:
        "../scripts/collect_tables.py"


BENCHMARKS += PLAN.benchmark_files("tables", COLLECTED)
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
ROOMS = shown.evidence_files(PLAIN, RESULT_TABLES)
KEPT_ROOMS = shown.evidence_files(KEPT.plain, KEPT.tables()) if KEPT.plain else []

# The files of a finished reproduction, but for its page.
FINISHED = [
    f"{RUN}/settings.json",
    *planning.parquet(RUN, ["claims", *RESULT_TABLES]).values(),
    *(file for room in ROOMS for file in room.files(RUN)),
    *shown.ROOMS["durations"].files(RUN),
]


# For each of the two reproductions: its folder, the prefix of its rules' names, its rooms, Parquet tables and settings.
for FOLDER, PREFIX, FILLED, TABLES, SETTINGS in [
    (RUN, "", ROOMS, RESULT_TABLES, PLAIN),
    (KEPT.folder, "published_", KEPT_ROOMS, KEPT.tables(), KEPT.plain),
]:

    rule:
        name:
            f"{PREFIX}claims"
        input:
            **planning.parquet(FOLDER, TABLES),
        output:
            f"{FOLDER}/parquet/claims.parquet",
        log:
            f"{FOLDER}/logs/claims.log",
        benchmark:
            f"{FOLDER}/benchmarks/claims.tsv"
        group:
            "drawing"
        resources:
            **asking(1500, 5),
        params:
            rules=f"{FOLDER}/rules.json",
            settings=SETTINGS,
            code=code("judge_claims.py"),
        script:
            "../scripts/judge_claims.py"

    # A rule for each room, and not one for all, so that `snakemake majority` draws its figures without language models.
    for ROOM in FILLED:

        rule:
            name:
                f"{PREFIX}draw_{ROOM.name}"
            input:
                **planning.parquet(FOLDER, ROOM.inputs),
            output:
                [*drawn(FOLDER, ROOM)],
            log:
                f"{FOLDER}/logs/draw/{ROOM.name}.log",
            benchmark:
                f"{FOLDER}/benchmarks/draw/{ROOM.name}.tsv"
            group:
                "drawing"
            resources:
                **asking(2000, 10),
            params:
                room=ROOM.name,
                settings={part: SETTINGS.get(part) for part in ("majority", "language_model")},
                code=code("draw.py"),
            script:
                "../scripts/draw.py"

    rule:
        name:
            f"{PREFIX}page"
        input:
            **planning.parquet(FOLDER, ["claims", *TABLES]),
            figures=[f"{FOLDER}/figures/{name}.png" for room in FILLED for name in room.figures],
            durations=f"{FOLDER}/tables/durations.csv",
        output:
            report=f"{FOLDER}/report.html",
            findings=f"{FOLDER}/findings.html",
        log:
            f"{FOLDER}/logs/page.log",
        benchmark:
            f"{FOLDER}/benchmarks/page.tsv"
        group:
            "drawing"
        resources:
            **asking(1500, 5),
        params:
            tables=["claims", *TABLES],
            figures=[name for room in FILLED for name in room.figures],
            settings=SETTINGS,
            options=planning.command_options(Path(FOLDER).name, WORKFLOW / "presets"),
            code=code("write_page.py"),
        script:
            "../scripts/write_page.py"


rule durations:
    input:
        # When these tables are made, so are the benchmark files of all jobs that compute.
        **planning.parquet(RUN, RESULT_TABLES),
    output:
        csv=f"{RUN}/tables/durations.csv",
        md=f"{RUN}/tables/durations.md",
    log:
        f"{RUN}/logs/durations.log",
    group:
        "drawing"
    resources:
        **asking(1500, 5),
    params:
        benchmarks=BENCHMARKS,
        code=code("write_durations.py"),
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
            **planning.parquet(RUN, ["claims"]),
        output:
            csv=f"{RUN}/compare_{Path(OTHER.folder).name}.csv",
            md=f"{RUN}/compare_{Path(OTHER.folder).name}.md",
        log:
            f"{RUN}/logs/compare_{Path(OTHER.folder).name}.log",
        params:
            run=RUN,
            against=OTHER.folder,
            code=code("compare.py"),
        script:
            "../scripts/compare.py"


localrules:
    settings,
