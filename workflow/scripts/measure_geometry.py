from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import Geometry
    from layernorm_roles.statements import geometry

    params, out = snakemake.params, snakemake.output
    geometry.write(Geometry.model_validate(params.settings), params.seed, out.measured, out.cloud)
