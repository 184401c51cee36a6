from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.page import readme

    readme.update("README.md", snakemake.input[0])
