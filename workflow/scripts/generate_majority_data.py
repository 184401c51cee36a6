from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.majority import data

    data.write(plan, snakemake.output.data)
