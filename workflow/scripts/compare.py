from layernorm_roles.job import job

with job(snakemake):
    from pathlib import Path

    from layernorm_roles.evidence.page import comparison

    params, out = snakemake.params, snakemake.output
    comparison.write(Path(out.page).parent, params.against, out.page, out.table, params.options)
