from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.random_keys.measure import measure
    from layernorm_roles.settings.random_keys import RandomKeys

    settings = RandomKeys.model_validate(snakemake.params.settings)
    measure(settings, snakemake.params.norms, snakemake.output.norms, snakemake.output.precision)
