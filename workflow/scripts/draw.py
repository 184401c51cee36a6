from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.evidence.draw import draw_rooms

    draw_rooms(plan, snakemake.input.tables, snakemake.output)
