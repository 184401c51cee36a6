from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.random_keys.measure import measure

    measure(plan, dict(snakemake.output.items()))
