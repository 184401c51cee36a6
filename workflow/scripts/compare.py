from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.tables.compare import compare

    params, out = snakemake.params, snakemake.output
    for line in compare(params.run, params.against, out.csv, out.md):
        print(line)
