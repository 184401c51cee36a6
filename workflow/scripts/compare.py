from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.tables.compare import compare

    params, output = snakemake.params, snakemake.output
    for line in compare(params.run, params.against, output.csv, output.md):
        print(line, flush=True)
