# From the rows that each job writes to whole tables, from tables to verdicts, figures and pages. The wildcard {name} says
# whether verdicts and pages are those of this configuration or of results/published/.
rule tables:
    input:
        differs=differs("tables/{table}"),
        parts=lambda wildcards: REPRODUCTION.parts(wildcards.table),
    output:
        origin=f"{FOLDER}/origin/tables/{{table}}.json",
        table=f"{FOLDER}/parquet/{{table}}.parquet",
    params:
        plan=planned("tables/{table}"),
    log:
        f"{FOLDER}/logs/tables/{{table}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/tables/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(REPRODUCTION.in_parts),
    group:
        "tables"
    script:
        "../scripts/collect_table.py"


rule claims:
    input:
        differs=differs("claims", "{name}"),
        tables=lambda wildcards: EXHIBITS[wildcards.name].results,
    output:
        origin="results/{name}/origin/claims.json",
        claims="results/{name}/parquet/claims.parquet",
        comparisons="results/{name}/parquet/comparisons.parquet",
    params:
        plan=planned("claims", "{name}"),
    log:
        "results/{name}/logs/claims.log",
    benchmark:
        "results/{name}/benchmarks/claims.tsv"
    script:
        "../scripts/judge_claims.py"


# A rule for each group of figures and tables for readers, since their files have no wildcard in common.
for GROUP in REPRODUCTION.exhibits.groups:

    rule:
        name:
            f"draw_{GROUP}"
        input:
            differs=differs(f"draw/{GROUP}"),
            tables=REPRODUCTION.exhibits.read_by(GROUP),
        output:
            [*shown(REPRODUCTION.exhibits, GROUP)],
            origin=f"{FOLDER}/origin/draw/{GROUP}.json",
        params:
            plan=planned(f"draw/{GROUP}"),
        log:
            f"{FOLDER}/logs/draw/{GROUP}.log",
        benchmark:
            f"{FOLDER}/benchmarks/draw/{GROUP}.tsv"
        group:
            "draw"
        priority: GROUP == "random_keys"  # the first figures of a reproduction, within minutes
        resources:
            mem_mb=doubling(2000),
            runtime=doubling(10),
        script:
            "../scripts/draw.py"


rule draw_published:
    input:
        differs=differs("draw", PUBLISHED),
        tables=KEPT.judged,
    output:
        [*shown(KEPT)],
        origin=f"{KEPT.folder}/origin/draw.json",
    params:
        plan=planned("draw", PUBLISHED),
    log:
        f"{KEPT.folder}/logs/draw.log",
    benchmark:
        f"{KEPT.folder}/benchmarks/draw.tsv"
    script:
        "../scripts/draw.py"


rule page:
    input:
        differs=differs("page", "{name}"),
        tables=lambda wildcards: EXHIBITS[wildcards.name].judged,
        figures=lambda wildcards: EXHIBITS[wildcards.name].pictures,
    output:
        origin="results/{name}/origin/page.json",
        report="results/{name}/report.html",
        findings=report("results/{name}/findings.html", category="Findings"),
    params:
        plan=planned("page", "{name}"),
    log:
        "results/{name}/logs/page.log",
    benchmark:
        "results/{name}/benchmarks/page.tsv"
    script:
        "../scripts/write_page.py"


rule settings:
    input:
        differs=differs("settings"),
    output:
        origin=f"{FOLDER}/origin/settings.json",
        settings=f"{FOLDER}/settings.json",
    params:
        plan=planned("settings"),
    log:
        f"{FOLDER}/logs/settings.log",
    priority: 1  # they say at which commit the run began
    localrule: True
    script:
        "../scripts/write_settings.py"


rule durations:
    input:
        differs=differs("durations"),
        # When these tables are made, so are the benchmark files of all jobs that compute.
        tables=REPRODUCTION.exhibits.results,
    output:
        origin=f"{FOLDER}/origin/durations.json",
        csv=f"{FOLDER}/tables/durations.csv",
    params:
        plan=planned("durations"),
        benchmarks=[f"{FOLDER}/benchmarks/{job}.tsv" for job in PLANS[NAME].of_stages(COMPUTING)],
    log:
        f"{FOLDER}/logs/durations.log",
    script:
        "../scripts/write_durations.py"


# The files of finished results, but for the pages.
FINISHED = [
    f"{FOLDER}/settings.json",
    *REPRODUCTION.exhibits.judged,
    *REPRODUCTION.exhibits.files,
    f"{FOLDER}/tables/durations.csv",
]
