from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.evidence.figures import registry, style

    known = registry.figures(snakemake.params.settings)
    tables = {name: store.read(path, name) for name, path in snakemake.input.items()}
    for png in (Path(path) for path in snakemake.output if path.endswith(".png")):
        style.save(registry.draw(known[png.stem], tables), png, png.with_suffix(".pdf"))
