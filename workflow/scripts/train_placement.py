from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements import placement

    placement.write(plan, snakemake.input.manifest, dict(snakemake.output.items()))
