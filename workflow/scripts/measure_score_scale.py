from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import ScoreScale
    from layernorm_roles.statements import score_scale

    params, files = snakemake.params, snakemake.input
    settings = ScoreScale.model_validate(params.settings)
    activations = zip(files.activations, params.identities, strict=True)
    score_scale.write(
        settings, params.seeds, files.vectors, params.experiment, activations, snakemake.output[0]
    )
