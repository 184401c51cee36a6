from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.random_keys.law import measure
    from layernorm_roles.settings.random_keys import Law

    measure(Law.model_validate(snakemake.params.settings), snakemake.output[0])
