# Random keys (Figures 1c and 1d): how many of them no query selects, beside the exact expectation.
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
    params:
        settings=PLAIN["random_keys"],
        norms={norm: PLAN.norm_class(norm) for norm in PLAIN["random_keys"]["norms"]},
        norm_code={norm: PLAN.norm_version(norm) for norm in PLAIN["random_keys"]["norms"]},
        code=code("measure_random_keys.py"),
    script:
        "../scripts/measure_random_keys.py"


BENCHMARKS += job_files("benchmarks", "random_keys_table")
