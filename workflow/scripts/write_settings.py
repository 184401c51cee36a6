from layernorm_roles.script import job

with job(snakemake) as plan:
    import json

    from layernorm_roles import files

    files.write_text(snakemake.output.settings, json.dumps(plan["settings"], indent=2) + "\n")
