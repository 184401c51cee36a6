from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.random_keys.law import measure

    measure(snakemake.output[0])
