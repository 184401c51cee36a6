from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence.page import page

    given, params, out = snakemake.input, snakemake.params, snakemake.output
    reproduction = page.Reproduction(
        name=Path(out.report).parent.name,
        tables={name: Path(given[name]) for name in params.tables},
        figures={name: Path(path) for name, path in zip(params.figures, given.figures, strict=True)},
        settings=params.settings,
        durations=Path(given.durations),
        options=params.options,
    )
    page.write(reproduction, Path(out.report).parent)
