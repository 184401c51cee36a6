from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.page import publish

    params = snakemake.params
    plan = {name: getattr(params, name) for name in ("settings", "tables", "figures", "files")}
    publish.publish(plan, params.run, params.kept)
