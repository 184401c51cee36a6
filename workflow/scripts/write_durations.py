from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles import files
    from layernorm_roles.evidence.analysis.durations import durations

    files.write_text(snakemake.output.csv, durations(snakemake.params.benchmarks).to_csv(index=False))
