from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.random_keys.measure import measure
    from layernorm_roles.settings.random_keys import RandomKeys

    params, out = snakemake.params, snakemake.output
    settings = RandomKeys.model_validate(params.settings)
    measure(settings, params.seed, params.norms, out.norms, out.precision)
