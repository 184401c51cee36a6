from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.evidence import published, report

    page, params = Path(snakemake.output[0]), snakemake.params
    report.write(page.parent, page, published.captions(Path(params.captions)), params.options)
