from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.settings.statements import Placement
    from layernorm_roles.statements import placement

    settings, out = Placement.model_validate(snakemake.params.settings), snakemake.output
    placement.write(settings, snakemake.wildcards.placement, snakemake.input[0], out.losses, out.gradients)
