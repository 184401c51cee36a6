from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles import store

    store.collect(plan, snakemake.input.parts, plan["table"], snakemake.output.table)
