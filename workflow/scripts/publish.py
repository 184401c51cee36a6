from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.page import page, publish

    params, run = snakemake.params, Path(snakemake.params.run)
    reproduction = page.Reproduction(
        name=Path(params.kept).name,
        tables={name: run / f"parquet/{name}.parquet" for name in params.tables},
        figures={name: run / f"figures/{name}.png" for name in params.figures},
        settings=params.settings,
        durations=run / "tables/durations.csv",
    )
    publish.publish(run, params.kept, params.files, reproduction)
