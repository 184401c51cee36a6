from pathlib import Path

from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles import store
    from layernorm_roles.evidence import claims

    store.refuse_unplanned(plan, snakemake.input.tables)
    output, tables = snakemake.output, {Path(path).stem: Path(path) for path in snakemake.input.tables}
    folder = Path(output.claims).parents[1]
    again = Path(snakemake.input.again[0]).parents[1] if plan["again"] else None
    claims.judge_files(
        tables, output.claims, output.comparisons, folder / "rules.json", plan["settings"], again
    )
