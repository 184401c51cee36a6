# Random keys (Figures 1c, 1d): which Gaussian keys can be selected, after each norm, against the exact expectation.
RANDOM_KEYS_FIGURES = ["1c", "1d", "random_keys_norms", "random_keys_exact", "random_keys_precision"]


rule random_keys_table:
    output:
        norms=f"{RUN}/parquet/random_keys.parquet",
        precision=f"{RUN}/parquet/random_keys_precision.parquet",
    log:
        f"{RUN}/logs/random_keys_table.log",
    benchmark:
        f"{RUN}/benchmarks/random_keys_table.tsv"
    threads: 1
    resources:
        mem_mb=memory(1000),
        runtime="30m",
    params:
        settings=config["random_keys"],
        norms={name: norm_class(config, name) for name in config["random_keys"]["norms"]},
        code=code("selectability", "norms"),
    script:
        "../scripts/random_keys.py"


rule random_keys_figures:
    input:
        norms="results/{run}/parquet/random_keys.parquet",
        precision="results/{run}/parquet/random_keys_precision.parquet",
    output:
        drawings("Random keys", *(f"figure_{name}" for name in RANDOM_KEYS_FIGURES)),
    log:
        "results/{run}/logs/random_keys_figures.log",
    benchmark:
        "results/{run}/benchmarks/random_keys_figures.tsv"
    params:
        figures=RANDOM_KEYS_FIGURES,
        code=code("evidence/random_keys", "evidence/style"),
    script:
        "../scripts/draw_random_keys.py"


rule random_keys:
    input:
        expand(f"{RUN}/figures/figure_{{figure}}.{{kind}}", figure=RANDOM_KEYS_FIGURES, kind=["png", "pdf"]),
