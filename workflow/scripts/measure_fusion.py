from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.statements import fusion

    fusion.write(plan, snakemake.input.samples, snakemake.output.table)
