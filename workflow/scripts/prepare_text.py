from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.text import Text
    from layernorm_roles.text.prepare import prepare

    params, folder = snakemake.params, Path(snakemake.output.manifest).parent
    prepare(Text.model_validate(params.settings), folder, params.downloads, params.seed)
