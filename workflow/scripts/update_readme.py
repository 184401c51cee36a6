from pathlib import Path

from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles.evidence.page import findings

    findings.update_readme("README.md", Path(snakemake.input.claims).parents[1])
