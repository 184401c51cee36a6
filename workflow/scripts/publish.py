from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles.evidence.page.publish import publish

    publish(snakemake.params.plan, snakemake.params.folder, snakemake.params.kept)
