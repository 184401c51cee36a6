from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import BatchDependence
    from layernorm_roles.statements import batch_dependence

    settings = BatchDependence.model_validate(snakemake.params.settings)
    batch_dependence.write(settings, snakemake.params.seeds, snakemake.output[0])
