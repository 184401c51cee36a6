from layernorm_roles.job import job

with job(snakemake):
    import json

    from layernorm_roles import files

    files.write_text(snakemake.output[0], json.dumps(snakemake.params.settings, indent=2) + "\n")
