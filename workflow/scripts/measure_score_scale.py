from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.statements import score_scale

    score_scale.write(plan, snakemake.output.table)
