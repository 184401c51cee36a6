# Random keys (Figures 1c and 1d): how many of them no query selects, beside the exact expectation. And the law of
# widths, which that expectation gives without any random keys.
rule random_keys_measure:
    input:
        plan=f"{RUN}/plan/random_keys.json",
        done=done("random_keys"),
    output:
        origin=f"{RUN}/origin/random_keys.json",
        random_keys=f"{RUN}/parquet/random_keys.parquet",
        random_keys_precision=f"{RUN}/parquet/random_keys_precision.parquet",
        gaussian_law=f"{RUN}/parquet/gaussian_law.parquet",
    log:
        f"{RUN}/logs/random_keys.log",
    benchmark:
        f"{RUN}/benchmarks/random_keys.tsv"
    priority: 1  # the first figures of a reproduction, within minutes
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(15),
    script:
        "../scripts/measure_random_keys.py"
