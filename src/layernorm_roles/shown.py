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
    group: str
    draw: str
    inputs: Sequence[str]
    caption: str
    options: Mapping[str, Any] = {}
    settings: str = ""
    needs: Mapping[str, Any] = {}

    @property
    def files(self) -> list[str]:
        """The paths of the figure's files in the folder of a reproduction."""
        return [f"figures/{self.name}.png", f"figures/{self.name}.pdf"]


class Table(NamedTuple):
    """A readable table's entry in shown.yaml, which says what the fields mean."""

    name: str
    group: str
    title: str
    inputs: Sequence[str]
    note: str = ""
    none: str = ""

    @property
    def files(self) -> list[str]:
        """The paths of the table's files in the folder of a reproduction: numbers in full precision, and text."""
        return [f"tables/{self.name}.csv", f"tables/{self.name}.md"]


class Group(NamedTuple):
    """The figures and readable tables that one job makes."""

    name: str
    title: str
    """What `snakemake --report` lists the figures under."""
    figures: list[Figure]
    tables: list[Table]

    @property
    def inputs(self) -> list[str]:
        """The names of the Parquet tables from which the figures and readable tables are made."""
        return sorted({name for exhibit in (*self.figures, *self.tables) for name in exhibit.inputs})

    @property
    def files(self) -> list[str]:
        """The paths of all files of the group in the folder of a reproduction."""
        return [file for exhibit in (*self.figures, *self.tables) for file in exhibit.files]


def _groups() -> dict[str, Group]:
    """Every group of shown.yaml by name, with all of its figures and readable tables."""
    text = Path(__file__).with_name("shown.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=LOADER)
    groups = {}
    for name, entry in content["groups"].items():
        figures = [Figure(figure, name, **fields) for figure, fields in entry.get("figures", {}).items()]
        figures = [each._replace(caption=each.caption.format_map(content["sentences"])) for each in figures]
        tables = [Table(table, name, **fields) for table, fields in entry.get("tables", {}).items()]
        groups[name] = Group(name, entry["title"], figures, tables)
    return groups


GROUPS = _groups()
"""Every group by name, with all of its figures and readable tables."""

FIGURES = {figure.name: figure for group in GROUPS.values() for figure in group.figures}
"""Every figure by name."""

TABLES = {table.name: table for group in GROUPS.values() for table in group.tables}
"""Every readable table by name."""


def groups_of(settings: Mapping[str, Any], tables: Collection[str]) -> list[Group]:
    """The groups of a reproduction, each with what it has to show, without empty ones.

    `settings` are those of the reproduction as plain dictionaries, `tables` the names of its Parquet tables, to which
    claims are added. A figure is left out if one of its tables is missing, or if no experiment or model of the section
    named like its group has what it needs.
    """
    there = {*tables, "claims"}
    groups = [
        group._replace(
            figures=[
                each for each in group.figures if there.issuperset(each.inputs) and _has(settings, each)
            ],
            tables=[each for each in group.tables if there.issuperset(each.inputs)],
        )
        for group in GROUPS.values()
    ]
    return [group for group in groups if group.files]


def trained(entry: Mapping[str, Any]) -> set[str]:
    """The variants that have at least one seed in the settings of an experiment or a model."""
    return {variant for variant, seeds in entry["seeds"].items() if seeds}


def is_single(entry: Mapping[str, Any]) -> bool:
    """Whether all runs of a majority experiment or language model have one width, learning rate and length."""
    values = (entry[key] for key in ("d_model", "learning_rate", "steps"))
    return all(not isinstance(value, list | tuple) or len(value) == 1 for value in values)


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


def _has(settings: Mapping[str, Any], figure: Figure) -> bool:
    """Whether the settings have what a figure needs."""
    section = settings.get(figure.group) or {}
    if norms := figure.needs.get("norms"):  # those of random keys, which are no experiments
        return not section or bool({*section["norms"]}.intersection(norms))
    return not figure.needs or any(
        all(_ASKED[key](entry, name, value) for key, value in figure.needs.items())
        for name, entry in section.items()
        if trained(entry)
    )
