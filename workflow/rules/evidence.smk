# From the rows that each job writes to whole tables, from tables to verdicts, figures and pages. The wildcard {name} says
# whether verdicts and pages are those of this configuration or of results/published/.
rule tables:
    input:
        differs=differs("tables/{table}"),
        parts=lambda wildcards: REPRODUCTION.parts(wildcards.table),
    output:
        origin=f"{FOLDER}/origin/tables/{{table}}.json",
        table=f"{FOLDER}/parquet/{{table}}.parquet",
    log:
        f"{FOLDER}/logs/tables/{{table}}.log",
    benchmark:
        f"{FOLDER}/benchmarks/tables/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(REPRODUCTION.in_parts),
    group:
        "tables"
    params:
        plan=planned("tables/{table}"),
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
    log:
        "results/{name}/logs/claims.log",
    benchmark:
        "results/{name}/benchmarks/claims.tsv"
    params:
        plan=planned("claims", "{name}"),
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
        log:
            f"{FOLDER}/logs/draw/{GROUP}.log",
        benchmark:
            f"{FOLDER}/benchmarks/draw/{GROUP}.tsv"
        priority: GROUP == "random_keys"  # the first figures of a reproduction, within minutes
        group:
            "draw"
        resources:
            mem_mb=doubling(2000),
            runtime=doubling(10),
        params:
            plan=planned(f"draw/{GROUP}"),
        script:
            "../scripts/draw.py"


rule draw_published:
    input:
        differs=differs("draw", PUBLISHED),
        tables=KEPT.judged,
    output:
        [*shown(KEPT)],
        origin=f"{KEPT.folder}/origin/draw.json",
    log:
        f"{KEPT.folder}/logs/draw.log",
    benchmark:
        f"{KEPT.folder}/benchmarks/draw.tsv"
    params:
        plan=planned("draw", PUBLISHED),
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
        markdown="results/{name}/findings.md",
    log:
        "results/{name}/logs/page.log",
    benchmark:
        "results/{name}/benchmarks/page.tsv"
    params:
        plan=planned("page", "{name}"),
    script:
        "../scripts/write_page.py"


rule settings:
    input:
        differs=differs("settings"),
    output:
        origin=f"{FOLDER}/origin/settings.json",
        settings=f"{FOLDER}/settings.json",
    log:
        f"{FOLDER}/logs/settings.log",
    priority: 1  # they say at which commit the run began
    localrule: True
    params:
        plan=planned("settings"),
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
    log:
        f"{FOLDER}/logs/durations.log",
    params:
        plan=planned("durations"),
        benchmarks=[f"{FOLDER}/benchmarks/{job}.tsv" for job in PLANS[NAME].of_stages(COMPUTING)],
    script:
        "../scripts/write_durations.py"


# The files of finished results, but for the pages.
FINISHED = [
    f"{FOLDER}/settings.json",
    *REPRODUCTION.exhibits.judged,
    *REPRODUCTION.exhibits.files,
    f"{FOLDER}/tables/durations.csv",
]
