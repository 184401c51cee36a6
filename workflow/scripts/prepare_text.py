from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.settings.text import Text
    from layernorm_roles.text.prepare import prepare

    settings = Text.model_validate(snakemake.params.settings)
    prepare(settings, Path(snakemake.output.manifest).parent, snakemake.params.downloads)
