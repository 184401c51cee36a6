from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.analysis.durations import durations
    from layernorm_roles.evidence.tables import output
    from layernorm_roles.evidence.tables import registry as tables

    out, frame = snakemake.output, durations(snakemake.params.benchmarks)
    output.write(tables.make(tables.DURATIONS, {"durations": frame}), out.csv, out.md)
