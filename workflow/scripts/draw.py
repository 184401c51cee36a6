from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles import store
    from layernorm_roles.evidence.draw import draw_groups

    store.refuse_unplanned(plan, snakemake.input.tables)
    drawn = [path for path in snakemake.output if path != snakemake.output.origin]
    draw_groups(plan, snakemake.input.tables, drawn)
