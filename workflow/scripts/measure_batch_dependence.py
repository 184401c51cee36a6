from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements import batch_dependence

    batch_dependence.write(plan, snakemake.output.table)
