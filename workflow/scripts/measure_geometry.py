from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.settings.statements import Geometry
    from layernorm_roles.statements import geometry

    settings = Geometry.model_validate(snakemake.params.settings)
    geometry.write(settings, snakemake.output.measured, snakemake.output.cloud)
