# What the documents beside the paper say about LayerNorm, measured: one table and figure an experiment.
STATEMENTS = [
    "geometry",
    "geometry_cloud",
    "fusion",
    "placement",
    "placement_gradients",
    "batch_dependence",
    "score_scale",
    "worked_numbers",
]
LAYERNORM_MODELS = [
    f"{RUN}/runs/language_model/gpt/layernorm/seed_{seed}/final.safetensors"
    for seed in range(config["language_model"]["gpt"]["seeds"].get("layernorm", 0))
]


rule geometry:
    output:
        measured=f"{RUN}/parquet/geometry.parquet",
        cloud=f"{RUN}/parquet/geometry_cloud.parquet",
    log:
        f"{RUN}/logs/geometry.log",
    benchmark:
        f"{RUN}/benchmarks/geometry.tsv"
    params:
        settings=config["statements"]["geometry"],
        code=code("statements/geometry", "norms"),
    script:
        "../scripts/measure_geometry.py"


rule fusion:
    input:
        models=LAYERNORM_MODELS,
        contexts=rules.text.output.contexts,
    output:
        f"{RUN}/parquet/fusion.parquet",
    log:
        f"{RUN}/logs/fusion.log",
    benchmark:
        f"{RUN}/benchmarks/fusion.tsv"
    params:
        settings=config["statements"]["fusion"],
        code=code("statements/fusion", "statements/trained", "language_model", "checkpoint", "norms"),
    script:
        "../scripts/measure_fusion.py"


rule placement_train:
    input:
        rules.text.output.training,
    output:
        losses=f"{RUN}/runs/placement/{{placement}}/placement.parquet",
        gradients=f"{RUN}/runs/placement/{{placement}}/placement_gradients.parquet",
    log:
        f"{RUN}/logs/placement_train/{{placement}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement_train/{{placement}}.tsv"
    wildcard_constraints:
        placement="pre|post",
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime="2h",
    params:
        settings=config["statements"]["placement"],
        code=code("statements/placement", "norms"),
    script:
        "../scripts/train_placement.py"


rule placement_tables:
    input:
        expand(
            f"{RUN}/runs/placement/{{placement}}/{{{{table}}}}.parquet",
            placement=config["statements"]["placement"]["placements"],
        ),
    output:
        f"{RUN}/parquet/{{table}}.parquet",
    log:
        f"{RUN}/logs/placement_tables/{{table}}.log",
    benchmark:
        f"{RUN}/benchmarks/placement_tables/{{table}}.tsv"
    wildcard_constraints:
        table="placement|placement_gradients",
    params:
        table="{table}",
        settings=config["statements"]["placement"],
    script:
        "../scripts/collect_tables.py"


rule batch_dependence:
    output:
        f"{RUN}/parquet/batch_dependence.parquet",
    log:
        f"{RUN}/logs/batch_dependence.log",
    benchmark:
        f"{RUN}/benchmarks/batch_dependence.tsv"
    params:
        settings=config["statements"]["batch_dependence"],
        code=code("statements/batch_dependence"),
    script:
        "../scripts/measure_batch_dependence.py"


rule score_scale:
    input:
        models=LAYERNORM_MODELS,
        contexts=rules.text.output.contexts,
        vectors=f"{RUN}/parquet/majority_vectors.parquet",
    output:
        f"{RUN}/parquet/score_scale.parquet",
    log:
        f"{RUN}/logs/score_scale.log",
    benchmark:
        f"{RUN}/benchmarks/score_scale.tsv"
    params:
        settings=config["statements"]["score_scale"],
        code=code("statements/score_scale", "statements/trained", "language_model", "checkpoint", "norms"),
    script:
        "../scripts/measure_score_scale.py"


rule worked_numbers:
    output:
        f"{RUN}/parquet/worked_numbers.parquet",
    log:
        f"{RUN}/logs/worked_numbers.log",
    benchmark:
        f"{RUN}/benchmarks/worked_numbers.tsv"
    params:
        code=code("statements/worked_numbers"),
    script:
        "../scripts/measure_worked_numbers.py"


# Drawn from the Parquet of any run, so that a kept one can be drawn again without computing.
rule statement_figure:
    input:
        "results/{run}/parquet/{statement}.parquet",
    output:
        drawings("Statements", "statement_{statement}", caption="statement"),
    log:
        "results/{run}/logs/statement_figure/{statement}.log",
    benchmark:
        "results/{run}/benchmarks/statement_figure/{statement}.tsv"
    wildcard_constraints:
        statement="|".join(STATEMENTS),
    params:
        caption=lambda wildcards: Path(f"{CAPTIONS}/statement_{wildcards.statement}.rst").read_text(),
        code=code("evidence/statements", "evidence/style", "evidence/statistics"),
    script:
        "../scripts/draw_statement.py"


rule statement_findings:
    input:
        expand("results/{{run}}/parquet/{table}.parquet", table=STATEMENTS),
    output:
        csv="results/{run}/tables/statements.csv",
        md="results/{run}/tables/statements.md",
        numbers_csv="results/{run}/tables/worked_numbers.csv",
        numbers_md="results/{run}/tables/worked_numbers.md",
    log:
        "results/{run}/logs/statement_findings.log",
    benchmark:
        "results/{run}/benchmarks/statement_findings.tsv"
    params:
        tables=STATEMENTS,
        code=code("evidence/statement_findings", "evidence/statistics", "evidence/tables"),
    script:
        "../scripts/tabulate_statements.py"


rule statements:
    input:
        expand(f"{RUN}/figures/statement_{{statement}}.{{kind}}", statement=STATEMENTS, kind=["png", "pdf"]),
        f"{RUN}/tables/statements.md",
