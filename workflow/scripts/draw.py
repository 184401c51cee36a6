"""The figures and the readable tables of one room of the evidence."""

from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import store
    from layernorm_roles.evidence.figures import registry, style
    from layernorm_roles.evidence.tables import output

    known, tables = registry.figures(snakemake.params.settings), dict(snakemake.input.items())
    frames = {name: store.read(path, name) for name, path in tables.items()}
    files = [Path(path) for path in snakemake.output]
    for png in (path for path in files if path.suffix == ".png"):
        style.save(registry.draw(known[png.stem], frames), png, png.with_suffix(".pdf"))
    output.write_tables(tables, [path for path in files if path.suffix in (".csv", ".md")])
