from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.settings.text import Source
    from layernorm_roles.text.downloads import download

    download(Source.model_validate(plan["source"]), snakemake.output.rows)
