from pathlib import Path

from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.evidence.page import page

    given = {Path(path).stem: path for path in snakemake.input.tables}
    given["figures"] = snakemake.input.figures
    page.write(plan, given, snakemake.output.report, snakemake.output.findings, snakemake.output.markdown)
