# From the rows that each job writes to whole tables, from tables to verdicts and to the pages that show them. The wildcard
# {name} says whether verdicts and pages are those of this configuration or of results/published/.
rule tables:
    input:
        plan=f"{RUN}/plan/tables/{{table}}.json",
        done=done("tables/{table}"),
        parts=ancient(lambda wildcards: THIS.parts(wildcards.table)),
    output:
        origin=f"{RUN}/origin/tables/{{table}}.json",
        table=f"{RUN}/parquet/{{table}}.parquet",
    log:
        f"{RUN}/logs/tables/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/tables/{{table}}.tsv"
    wildcard_constraints:
        table="|".join(THIS.in_parts),
    script:
        "../scripts/collect_table.py"


rule claims:
    input:
        plan="results/{name}/plan/claims.json",
        done=done("claims", "{name}"),
        tables=ancient(lambda wildcards: EXHIBITS[wildcards.name].results),
    output:
        origin="results/{name}/origin/claims.json",
        claims="results/{name}/parquet/claims.parquet",
        comparisons="results/{name}/parquet/comparisons.parquet",
    log:
        "results/{name}/logs/claims.log",
    benchmark:
        "results/{name}/benchmarks/claims.tsv"
    script:
        "../scripts/judge_claims.py"


rule durations:
    input:
        plan=f"{RUN}/plan/durations.json",
        done=done("durations"),
        # When these tables are made, so are the benchmark files of all jobs that compute.
        tables=ancient(THIS.exhibits.results),
    output:
        origin=f"{RUN}/origin/durations.json",
        csv=f"{RUN}/tables/durations.csv",
    log:
        f"{RUN}/logs/durations.log",
    params:
        benchmarks=plans.benchmarks(RUN, JOBS),
    script:
        "../scripts/write_durations.py"


rule page:
    input:
        plan="results/{name}/plan/page.json",
        done=done("page", "{name}"),
        tables=ancient(lambda wildcards: EXHIBITS[wildcards.name].judged),
        figures=ancient(lambda wildcards: EXHIBITS[wildcards.name].pictures),
    output:
        origin="results/{name}/origin/page.json",
        report="results/{name}/report.html",
        findings="results/{name}/findings.html",
    log:
        "results/{name}/logs/page.log",
    benchmark:
        "results/{name}/benchmarks/page.tsv"
    script:
        "../scripts/write_page.py"


rule settings:
    input:
        plan=f"{RUN}/plan/settings.json",
        done=done("settings"),
    output:
        origin=f"{RUN}/origin/settings.json",
        settings=f"{RUN}/settings.json",
    log:
        f"{RUN}/logs/settings.log",
    priority: 1  # the first figures read them
    localrule: True
    script:
        "../scripts/write_settings.py"


# The files of finished results, but for the pages.
FINISHED = [
    f"{RUN}/settings.json",
    *THIS.exhibits.judged,
    *THIS.exhibits.files,
    f"{RUN}/tables/durations.csv",
]
