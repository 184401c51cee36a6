from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles.evidence.page import findings

    findings.update_readme("README.md", snakemake.input.claims)
