from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.page import page

    plan = {name: getattr(snakemake.params, name) for name in ("settings", "tables", "figures", "options")}
    page.write(plan, dict(snakemake.input.items()), snakemake.output.report, snakemake.output.findings)
