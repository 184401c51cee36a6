from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.text import contexts

    contexts.prepare(snakemake.params.settings, Path(snakemake.output.manifest).parent)
