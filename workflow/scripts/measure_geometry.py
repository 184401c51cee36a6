from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.statements import SEED_RULE, geometry

    settings = snakemake.params.settings
    about = store.provenance(settings, "cpu", SEED_RULE)
    store.write(geometry.measure(settings), "geometry", snakemake.output.measured, about)
    store.write(geometry.cloud(settings), "geometry_cloud", snakemake.output.cloud, about)
