from layernorm_roles.script import job

with job(snakemake) as plan:
    import json

    from layernorm_roles import files
    from layernorm_roles.provenance import git_commit

    # The commit at which the run began: `git diff` shows what has changed in the rules of the claims since.
    settings = plan["settings"] | {"git_commit": git_commit()}
    files.write_text(snakemake.output.settings, json.dumps(settings, indent=2) + "\n")
