"""Draws the figures and writes the readable tables of a reproduction, by their names in shown.yaml."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from layernorm_roles import shown, store
from layernorm_roles.evidence import legends
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.tables import readable


def draw(name: str, tables: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Return the matplotlib Figure called `name` in shown.yaml, from data frames of Parquet tables by their names."""
    style.theme()
    figure = shown.FIGURES[name]
    function = resolve_name("layernorm_roles.evidence.figures." + figure.draw.replace(".", ":"))
    given = [tables[table] for table in figure.inputs]
    if figure.settings:
        given.append(settings)
    return function(*given, **figure.options)


def draw_groups(plan: Mapping[str, Any], tables: Iterable[str | Path], outputs: Iterable[str | Path]) -> None:
    """Write the figures and tables of a plan's groups of exhibits, as far as their files are among `outputs`.

    `plan` has the names of the `groups` and the reproduction's `settings`. `tables` are Parquet files, named like their
    tables.
    """
    legends.name_scaled(plan["settings"].get("norms", {}))
    frames = {path.stem: store.read(path, path.stem) for path in map(Path, tables)}
    wanted = {f"{path.parent.name}/{path.name}": path for path in map(Path, outputs)}
    for group in shown.groups_of(plan["settings"], frames):
        for exhibit in (*group.figures, *group.tables) if group.name in plan["groups"] else ():
            paths = [wanted[file] for file in exhibit.files if file in wanted]
            if paths and isinstance(exhibit, shown.Figure):
                style.save(draw(exhibit.name, frames, plan["settings"]), *paths)
            elif paths:
                readable.write(readable.make(exhibit, frames), *paths)
