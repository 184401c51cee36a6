from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import Fusion
    from layernorm_roles.statements import fusion

    params = snakemake.params
    settings = Fusion.model_validate(params.settings)
    activations = zip(snakemake.input.activations, params.identities, strict=True)
    fusion.write(settings, params.seeds, activations, snakemake.output[0])
