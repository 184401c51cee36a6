from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements.measure import write

    write(plan, dict(snakemake.input.items()), dict(snakemake.output.items()))
