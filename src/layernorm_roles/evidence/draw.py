"""Draws the figures and writes the readable tables that one job makes, by their names in shown.yaml."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from layernorm_roles import shown, store
from layernorm_roles.evidence import legends
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.tables import readable


def draw(name: str, tables: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    """Draw the figure called `name`; return a matplotlib Figure.

    `tables` are pandas data frames by the names of their Parquet tables, `settings` those of the reproduction.
    """
    style.theme()
    figure = shown.FIGURES[name]
    module, _, function = figure.draw.rpartition(".")
    function = getattr(import_module(f"layernorm_roles.evidence.figures.{module}"), function)
    frames = [tables[table] for table in figure.tables]
    if figure.settings:
        frames.append(settings[figure.settings])
    return function(*frames, **figure.options)


def draw_rooms(plan: Mapping[str, Any], tables: Iterable[str | Path], outputs: Iterable[str | Path]) -> None:
    """Draw the rooms that a plan names, from the Parquet files `tables`, each named like its table, to `outputs`."""
    inputs, paths = {Path(path).stem: path for path in tables}, [*map(Path, outputs)]
    for room in plan["rooms"]:
        known = {Path(file).name for file in shown.ROOMS[room].files("")}
        draw_room(room, plan, inputs, [path for path in paths if path.name in known])


def draw_room(
    room: str, plan: Mapping[str, Any], inputs: Mapping[str, str | Path], outputs: Iterable[str | Path]
) -> None:
    """Draw the figures and write the readable tables of a room whose files are among `outputs`, named by their stems.

    `plan` has the reproduction's settings under "settings"; `inputs` are Parquet files by the names of their tables.
    """
    legends.name_scaled(plan["settings"].get("norms", {}))
    frames = {name: store.read(path, name) for name, path in inputs.items()}
    if "claims" in frames:
        frames["claims"].attrs["kept"] = plan.get("kept", {})
    files: dict[tuple[str, str], list[Path]] = {}
    for path in map(Path, outputs):
        files.setdefault((path.parent.name, path.stem), []).append(path)
    for (folder, name), paths in files.items():
        if folder == "figures":
            style.save(draw(name, frames, plan["settings"]), *paths)
        else:
            readable.write(readable.make(shown.ROOMS[room].tables[name], frames), *paths)
