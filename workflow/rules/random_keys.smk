# Random keys (Figures 1c and 1d): how many of them no query selects, beside the exact expectation. And the law of
# widths, which that expectation gives without any random keys.
rule random_keys_table:
    output:
        norms=f"{RUN}/parquet/random_keys.parquet",
        precision=f"{RUN}/parquet/random_keys_precision.parquet",
    log:
        f"{RUN}/logs/random_keys_table.log",
    benchmark:
        f"{RUN}/benchmarks/random_keys_table.tsv"
    resources:
        **asking(1500, 15),
    params:
        settings=PLAIN["random_keys"],
        seed=PLAIN["first_seed"],
        norms={norm: PLAN.settings.norm_class(norm) for norm in PLAIN["random_keys"]["norms"]},
        norm_code={norm: PLAN.norm_version(norm) for norm in PLAIN["random_keys"]["norms"]},
        code=code("measure_random_keys.py"),
    script:
        "../scripts/measure_random_keys.py"


rule gaussian_law:
    output:
        f"{RUN}/parquet/gaussian_law.parquet",
    log:
        f"{RUN}/logs/gaussian_law.log",
    benchmark:
        f"{RUN}/benchmarks/gaussian_law.tsv"
    group:
        "statements"
    resources:
        **asking(1500, 5),
    params:
        settings=PLAIN["random_keys"]["law"],
        code=code("measure_gaussian_law.py"),
    script:
        "../scripts/measure_gaussian_law.py"


BENCHMARKS += PLAN.benchmark_files("random_keys_table") + PLAN.benchmark_files("gaussian_law")
