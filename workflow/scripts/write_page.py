from pathlib import Path

from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.evidence.page import page

    page.write(plan, Path(snakemake.output.report).parent)
