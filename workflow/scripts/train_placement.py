from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.statements import Placement
    from layernorm_roles.statements import placement
    from layernorm_roles.text.prepared import PreparedText

    params, out = snakemake.params, snakemake.output
    settings, placed = Placement.model_validate(params.settings), snakemake.wildcards.placement
    text = PreparedText(Path(snakemake.input.manifest).parent)
    text.content_hash()  # raises an error if the token stream is of another text
    placement.write(
        settings, params.seeds, params.untrained_seeds, placed, text.tokens("training"), dict(out.items())
    )
