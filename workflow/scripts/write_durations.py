from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.evidence.tables.durations import write

    write(snakemake.params.benchmarks, snakemake.output.csv, snakemake.output.md)
