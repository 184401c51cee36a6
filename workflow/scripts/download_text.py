from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.settings.text import Source
    from layernorm_roles.text.downloads import download

    download(Source.model_validate(snakemake.params.source), snakemake.output[0])
