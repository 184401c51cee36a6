from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.evidence.tables import output

    output.write_tables(dict(snakemake.input.items()), snakemake.output)
