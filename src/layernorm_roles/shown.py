"""Which figures and readable tables are made from the results of a configuration, by the list in shown.yaml.

Snakemake imports this module whenever it plans, so it imports nothing but a reader of YAML files.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_roles.settings import yaml_files


class Figure(NamedTuple):
    """A figure that is listed in shown.yaml: its name, its caption, and how it is plotted.

    `draw` is the plotting function in `evidence.figures`; it gets the Parquet tables `inputs`, the reproduction's
    settings if `settings` is true, and `options`. `group` names the figure's `Group`, mostly also a section of
    config.yaml; the figure is left out if no experiment or model of that section meets all conditions in `needs`. With
    `each`, every one that meets them has a figure of its own.
    """

    name: str
    group: str
    draw: str
    inputs: Sequence[str]
    caption: str
    options: Mapping[str, Any] = {}
    settings: bool = False
    needs: Mapping[str, Any] = {}
    each: bool = False

    def of(self, experiment: str) -> "Figure":
        """The figure of one experiment, whose name ends with the experiment's."""
        options = {**self.options, "experiment": experiment}
        return self._replace(name=f"{self.name}_{experiment}", options=options, each=False)

    @property
    def files(self) -> list[str]:
        """The paths, below results/<name>/, of the figure's PNG and PDF files."""
        return [f"figures/{self.name}.png", f"figures/{self.name}.pdf"]


class Table(NamedTuple):
    """A table for readers that is listed in shown.yaml and made from the Parquet tables `inputs`.

    `note` stands below the table and says what the columns mean; `none` in place of a table without rows.
    """

    name: str
    group: str
    title: str
    inputs: Sequence[str]
    note: str = ""
    none: str = ""

    @property
    def files(self) -> list[str]:
        """The paths, below results/<name>/, of the table's CSV file (numbers in full precision) and Markdown file."""
        return [f"tables/{self.name}.csv", f"tables/{self.name}.md"]


class Group(NamedTuple):
    """The figures and tables for readers that one job makes, on one subject such as the majority task.

    They are listed in shown.yaml.
    """

    name: str
    title: str
    """The heading under which `snakemake --report` lists the figures."""
    figures: list[Figure]
    tables: list[Table]

    @property
    def inputs(self) -> list[str]:
        """The names, sorted, of all Parquet tables from which figures and tables of the group are made."""
        return sorted({name for exhibit in (*self.figures, *self.tables) for name in exhibit.inputs})

    @property
    def files(self) -> list[str]:
        """The paths, below results/<name>/, of the files of all figures and tables of the group."""
        return [file for exhibit in (*self.figures, *self.tables) for file in exhibit.files]


def _groups() -> dict[str, Group]:
    """Read shown.yaml: its groups by name, each with all figures and readable tables that are listed there."""
    content, groups = yaml_files.read(Path(__file__).with_name("shown.yaml")), {}
    for name, entry in content["groups"].items():
        figures = [Figure(figure, name, **fields) for figure, fields in entry.get("figures", {}).items()]
        figures = [each._replace(caption=each.caption.format_map(content["sentences"])) for each in figures]
        tables = [Table(table, name, **fields) for table, fields in entry.get("tables", {}).items()]
        groups[name] = Group(name, entry["title"], figures, tables)
    return groups


GROUPS = _groups()
"""Every group of figures and readable tables in shown.yaml, by its name."""


class Figures(dict[str, Figure]):
    """The figures in shown.yaml by name; "majority_curves_d8" gives majority_curves of the experiment d8."""

    def __missing__(self, name: str) -> Figure:
        for figure in self.values():
            if figure.each and name.startswith(f"{figure.name}_"):
                return figure.of(name.removeprefix(f"{figure.name}_"))
        raise KeyError(name)


FIGURES = Figures({figure.name: figure for group in GROUPS.values() for figure in group.figures})
"""Every figure in shown.yaml, by its name."""

TABLES = {table.name: table for group in GROUPS.values() for table in group.tables}
"""Every table for readers in shown.yaml, by its name."""


def groups_of(settings: Mapping[str, Any], tables: Collection[str]) -> list[Group]:
    """The groups of figures and tables for readers that can be made from the results of a reproduction.

    `settings` has the reproduction's settings, as dictionaries. `tables` names the Parquet tables that exist, beside
    claims and comparisons. A figure or table that reads any other Parquet table is left out; so is a figure if no
    experiment or model of its section in config.yaml meets all conditions in its `needs`. Empty groups are left out.
    """
    there = {*tables, "claims", "comparisons"}
    groups = [
        group._replace(
            figures=[
                made
                for each in group.figures
                if there.issuperset(each.inputs)
                for made in _made(settings, each)
            ],
            tables=[each for each in group.tables if there.issuperset(each.inputs)],
        )
        for group in GROUPS.values()
    ]
    return [group for group in groups if group.files]


def trained(entry: Mapping[str, Any]) -> set[str]:
    """The names of the variants with at least one seed in `entry`, the settings of an experiment or language model."""
    return {variant for variant, seeds in entry["seeds"].items() if seeds}


def is_single(entry: Mapping[str, Any]) -> bool:
    """Whether an experiment or language model has one value of each key that may hold a list.

    `entry` has its settings. The keys are d_model, learning_rate, steps and query_key_rate.
    """
    values = (entry.get(key) for key in ("d_model", "learning_rate", "steps", "query_key_rate"))
    return all(not isinstance(value, list | tuple) or len(value) == 1 for value in values)


_ASKED = {
    "name": lambda entry, name, asked: name in asked,
    "not": lambda entry, name, asked: name not in asked,
    "d_model": lambda entry, name, asked: list(entry["d_model"]) == asked,
    "no_architecture": lambda entry, name, asked: entry["architecture"] != asked,
    "single": lambda entry, name, asked: is_single(entry) == asked,
    "several": lambda entry, name, asked: len(entry[asked]) > 1,
    "any_of": lambda entry, name, asked: bool(trained(entry).intersection(asked)),
    "all_of": lambda entry, name, asked: trained(entry).issuperset(asked),
    "more_than": lambda entry, name, asked: trained(entry) > {asked} or asked not in trained(entry),
}
"""By key of `Figure.needs`, a function (settings, name, value) that says if an experiment or model fits the value.

name: its name is among the values. not: it is not. d_model: its widths are the values. no_architecture: its
architecture is not the value. single: whether it has one width, learning rate and number of steps. several: the setting
named by the value has more than one value. any_of, all_of: any or all of the values are variants with seeds. more_than:
it has variants with seeds beside the one named, or lacks that one.
"""


def _made(settings: Mapping[str, Any], figure: Figure) -> list[Figure]:
    """The figure, or with `figure.each` one an experiment, if the settings behind some results are as it needs."""
    section = settings.get(figure.group) or {}
    if norms := figure.needs.get("norms"):  # those of random keys, which are no experiments
        return [figure] if not section or {*section["norms"]}.intersection(norms) else []
    if not figure.needs:
        return [figure]
    fitting = [
        name
        for name, entry in section.items()
        if trained(entry) and all(_ASKED[key](entry, name, value) for key, value in figure.needs.items())
    ]
    return [figure.of(name) for name in fitting] if figure.each else [figure] * bool(fitting)
