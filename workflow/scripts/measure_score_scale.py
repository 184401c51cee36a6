from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import ScoreScale
    from layernorm_roles.statements import trained

    params, files = snakemake.params, snakemake.input
    settings = ScoreScale.model_validate(params.settings)
    activations = zip(files.activations, params.identities, strict=True)
    trained.write_score_scale(
        settings, params.seeds, files.vectors, params.experiment, activations, snakemake.output[0]
    )
