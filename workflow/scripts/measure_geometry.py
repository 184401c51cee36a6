from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements import geometry

    geometry.write(plan, snakemake.output.measured, snakemake.output.cloud)
