# The verdict on every claim, the page that shows them, and the kept run in results/published/.
RUN_TABLES = [
    "majority_metrics",
    "majority_vectors",
    "random_keys",
    "random_keys_precision",
    *LANGUAGE_MODEL_TABLES,
    *STATEMENTS,
]
RUN_FIGURES = [
    *(f"figure_{name}" for name in [*MAJORITY_FIGURES, *RANDOM_KEYS_FIGURES, *LANGUAGE_MODEL_FIGURES]),
    *(f"statement_{name}" for name in STATEMENTS),
]
READABLE_TABLES = [
    "convergence",
    *(f"table_{number}" for number in [1, 2, 3, 4]),
    "statements",
    "worked_numbers",
]
DRAWN = [
    *expand("figures/{name}.{kind}", name=RUN_FIGURES, kind=["png", "pdf"]),
    *expand("tables/{name}.{kind}", name=READABLE_TABLES, kind=["csv", "md"]),
    "tables/convergence_runs.csv",
]
CAPTIONS = "workflow/report"


rule claims:
    input:
        # Of a kept run those tables that it has: a claim without its table is not tested.
        lambda wildcards: [
            path
            for path in expand("results/{run}/parquet/{table}.parquet", run=wildcards.run, table=RUN_TABLES)
            if wildcards.run == config["name"] or Path(path).exists()
        ],
    output:
        "results/{run}/parquet/claims.parquet",
    log:
        "results/{run}/logs/claims.log",
    benchmark:
        "results/{run}/benchmarks/claims.tsv"
    params:
        code=code(
            "evidence/claims", "evidence/majority", "evidence/statistics", "evidence/statement_findings"
        ),
        words=files_hash("evidence/claims/*.yaml", "evidence/*.yaml"),
    script:
        "../scripts/judge_claims.py"


rule page:
    input:
        expand("results/{{run}}/figures/{name}.png", name=RUN_FIGURES),
        expand("results/{{run}}/tables/{name}.md", name=READABLE_TABLES),
        claims="results/{run}/parquet/claims.parquet",
        captions=expand(f"{CAPTIONS}/{{name}}.rst", name=RUN_FIGURES),
    output:
        "results/{run}/report.html",
    log:
        "results/{run}/logs/page.log",
    params:
        options=command_options,
        code=code("evidence/report", "evidence/claims", "evidence/durations", "evidence/style"),
        page=files_hash("evidence/page/*", "evidence/claims/*.yaml"),
    script:
        "../scripts/write_page.py"


rule evidence:
    input:
        f"{RUN}/report.html",


# The kept run. Nothing here trains: its Parquet tables are files that no rule makes.
rule published_figures:
    input:
        expand("results/published/{file}", file=DRAWN),


rule published_report:
    input:
        "results/published/report.html",


localrules:
    publish,
    readme,


# No inputs, so that an unfinished run is refused instead of finished.
rule publish:
    log:
        f"{RUN}/logs/publish.log",
    params:
        run=RUN,
        files=[
            *expand("parquet/{table}.parquet", table=[*RUN_TABLES, "claims"]),
            *DRAWN,
            *multiext("tables/durations", ".csv", ".md"),
            *multiext("figures/durations", ".png", ".pdf"),
        ],
        captions=CAPTIONS,
    script:
        "../scripts/publish.py"


rule readme:
    input:
        "results/published/parquet/claims.parquet",
    log:
        "results/published/logs/readme.log",
    script:
        "../scripts/update_readme.py"
