from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.majority import data
    from layernorm_roles.settings.majority import MajorityData

    settings = MajorityData.model_validate(snakemake.params.settings)
    data.write(settings, int(snakemake.wildcards.seed), snakemake.output[0])
