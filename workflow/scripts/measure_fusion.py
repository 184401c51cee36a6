from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements import fusion

    fusion.write(plan, snakemake.input.samples, snakemake.output.table)
