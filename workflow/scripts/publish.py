from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.evidence import published

    params = snakemake.params
    captions = published.captions(Path(params.captions))
    published.publish(Path(params.run), Path("results/published"), params.files, captions)
