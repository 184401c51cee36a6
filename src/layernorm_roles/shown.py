"""Which figures and readable tables a reproduction has, by its settings and the list in shown.yaml.

Planning reads this module, so it imports nothing but a reader of YAML. The functions that the list names stand in
layernorm_roles.evidence.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader of YAML, in C where the package has it."""


class Figure(NamedTuple):
    """A figure's entry in shown.yaml, which says what the fields mean."""

    name: str
    draw: str
    tables: Sequence[str]
    caption: str
    category: str
    """The title of the figure's room, under which `snakemake --report` lists it."""
    options: Mapping[str, Any] = {}
    settings: str = ""
    needs: Mapping[str, Any] = {}


class Table(NamedTuple):
    """A readable table's entry in shown.yaml, which says what the fields mean."""

    name: str
    room: str
    title: str
    inputs: Sequence[str]
    note: str = ""
    none: str = ""

    @property
    def files(self) -> list[str]:
        """The names of the table's files in the folder tables/: numbers in full precision, and text."""
        return [f"{self.name}.csv", f"{self.name}.md"]


class Room(NamedTuple):
    """The figures and readable tables that one job draws, by name."""

    name: str
    figures: Mapping[str, Figure]
    tables: Mapping[str, Table]

    @property
    def inputs(self) -> list[str]:
        """The names of the Parquet tables from which the figures and readable tables are made."""
        drawn = {name for figure in self.figures.values() for name in figure.tables}
        return sorted(drawn.union(*(table.inputs for table in self.tables.values())))

    def files(self, folder: str) -> list[str]:
        """The PNG and PDF files of the figures and the files of the tables, in the folder of a reproduction."""
        drawn = [f"{folder}/figures/{name}.{kind}" for name in self.figures for kind in ("png", "pdf")]
        return drawn + [f"{folder}/tables/{file}" for table in self.tables.values() for file in table.files]


def _rooms() -> dict[str, Room]:
    """Every figure and readable table of shown.yaml, by room."""
    text = Path(__file__).with_name("shown.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=LOADER)
    rooms = {}
    for name, entry in content["rooms"].items():
        figures = {
            key: Figure(
                key,
                category=entry["title"],
                **own | {"caption": own["caption"].format_map(content["sentences"])},
            )
            for key, own in entry.get("figures", {}).items()
        }
        tables = {key: Table(key, name, **own) for key, own in entry.get("tables", {}).items()}
        rooms[name] = Room(name, figures, tables)
    return rooms


ROOMS = _rooms()
"""Every room with all of its figures and readable tables."""

FIGURES = {name: figure for room in ROOMS.values() for name, figure in room.figures.items()}
"""Every figure by name."""

TABLES = {name: table for room in ROOMS.values() for name, table in room.tables.items()}
"""Every readable table by name."""


def evidence_files(settings: Mapping[str, Any], tables: Collection[str]) -> list[Room]:
    """The rooms of a reproduction, each with what it has to show, without empty ones.

    `settings` are those of the reproduction as plain dictionaries, `tables` the names of its Parquet tables, to which
    claims are added. A figure is left out if one of its tables is missing, or if no experiment or model of the section
    named like its room has what it needs.
    """
    there = {*tables, "claims"}
    found = []
    for room in ROOMS.values():
        figures = {
            name: figure
            for name, figure in room.figures.items()
            if there.issuperset(figure.tables) and _has(settings, room.name, figure.needs)
        }
        readable = {name: table for name, table in room.tables.items() if there.issuperset(table.inputs)}
        if figures or readable:
            found.append(Room(room.name, figures, readable))
    return found


def trained(entry: Mapping[str, Any]) -> set[str]:
    """The variants that have at least one seed in the settings of an experiment or a model."""
    return {variant for variant, seeds in entry["seeds"].items() if seeds}


def is_single(entry: Mapping[str, Any]) -> bool:
    """Whether all runs of a majority experiment or language model have one width, learning rate and length."""
    keys = ("d_model", "learning_rate", "steps")
    return all(not isinstance(entry[key], list | tuple) or len(entry[key]) == 1 for key in keys)


_ASKED = {
    "name": lambda entry, name, asked: name == asked,
    "not": lambda entry, name, asked: name not in asked,
    "d_model": lambda entry, name, asked: list(entry["d_model"]) == asked,
    "no_architecture": lambda entry, name, asked: entry["architecture"] != asked,
    "single": lambda entry, name, asked: is_single(entry) == asked,
    "several": lambda entry, name, asked: len(entry[asked]) > 1,
    "any_of": lambda entry, name, asked: bool(trained(entry).intersection(asked)),
    "all_of": lambda entry, name, asked: trained(entry).issuperset(asked),
    "more_than": lambda entry, name, asked: trained(entry) > {asked} or asked not in trained(entry),
}
"""What each key of `needs` asks of an experiment or model that has runs: its settings, its name, the key's value.

name: the name it has. not: names that it has not. d_model: the setting. no_architecture: the one it has not. single:
one width, learning rate and length. several: a list of more than one value. any_of, all_of: variants with seeds.
more_than: variants beside this one.
"""


def _has(settings: Mapping[str, Any], room: str, needs: Mapping[str, Any]) -> bool:
    """Whether the settings have what a figure of a room needs."""
    asked = dict(needs)
    section = settings.get(room) or {}
    if norms := asked.pop("norms", None):  # those of random keys, which are no experiments
        return not section or bool({*section["norms"]}.intersection(norms))
    return not asked or any(
        all(_ASKED[key](entry, name, value) for key, value in asked.items())
        for name, entry in section.items()
        if trained(entry)
    )
