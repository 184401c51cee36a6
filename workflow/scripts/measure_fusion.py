from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.settings.statements import Fusion
    from layernorm_roles.statements import trained

    settings = Fusion.model_validate(snakemake.params.settings)
    trained.write_fusion(settings, snakemake.input.activations, snakemake.output[0])
