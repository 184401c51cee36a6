# Random keys (Figures 1c and 1d): how many of them no query selects, beside the exact expectation. And the law of
# widths, which that expectation gives without any random keys.
rule random_keys_measure:
    input:
        differs=differs("random_keys_measure"),
    output:
        origin=f"{FOLDER}/origin/random_keys_measure.json",
        random_keys=f"{FOLDER}/parquet/random_keys.parquet",
        random_keys_precision=f"{FOLDER}/parquet/random_keys_precision.parquet",
        gaussian_law=f"{FOLDER}/parquet/gaussian_law.parquet",
    log:
        f"{FOLDER}/logs/random_keys_measure.log",
    benchmark:
        f"{FOLDER}/benchmarks/random_keys_measure.tsv"
    priority: 1  # the first figures of a reproduction, within minutes
    resources:
        mem_mb=doubling(1500),
        runtime=doubling(15),
    params:
        plan=planned("random_keys_measure"),
    script:
        "../scripts/measure_random_keys.py"
