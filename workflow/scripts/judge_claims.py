from pathlib import Path

from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles import store
    from layernorm_roles.evidence import claims

    store.refuse_unplanned(plan, snakemake.input.tables)
    tables = {Path(path).stem: path for path in snakemake.input.tables}
    claims.judge_files(tables, snakemake.output.claims, snakemake.output.comparisons)
