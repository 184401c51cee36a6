from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.settings.statements import Placement
    from layernorm_roles.statements import placement

    params, out = snakemake.params, snakemake.output
    settings, placed = Placement.model_validate(params.settings), snakemake.wildcards.placement
    placement.write(
        settings, params.seeds, params.untrained_seeds, placed, snakemake.input[0], dict(out.items())
    )
