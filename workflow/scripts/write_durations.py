from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import shown
    from layernorm_roles.evidence.analysis.durations import durations
    from layernorm_roles.evidence.tables import readable

    out, frame = snakemake.output, durations(snakemake.params.benchmarks)
    readable.write(readable.make(shown.TABLES["durations"], {"durations": frame}), out.csv, out.md)
