from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.evidence import published, report

    page = Path(snakemake.output[0])
    captions = published.captions(Path(snakemake.input.captions[0]).parent)
    report.write(page.parent, page, captions, snakemake.params.options)
