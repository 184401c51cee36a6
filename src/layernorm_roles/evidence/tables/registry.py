"""Which readable tables a reproduction has, and for each one what it is made from, its title and its note.

The file tables.yaml beside this module has an entry for each table. Snakemake imports this module while it plans the
jobs, so it imports neither pandas nor pyarrow; `make` imports the module that makes a table when it is called.
"""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Table(NamedTuple):
    """One readable table of a reproduction; tables.yaml says what the fields mean."""

    name: str
    """Name of the files without their ending, e.g. table_1, and of the function that makes the table."""
    module: str
    """Module of layernorm_roles.evidence.tables that has the function."""
    title: str
    inputs: Sequence[str]
    note: str = ""
    none: str = ""
    kinds: Sequence[str] = ("csv", "md")


DURATIONS = Table("durations", "durations", "Time taken", ["durations"])
"""The one table that is not made from Parquet files but from the benchmark files of the jobs."""

_FILE = yaml.safe_load((Path(__file__).parent / "tables.yaml").read_text(encoding="utf-8"))

TABLES = {
    name: Table(name, module, **entry) for module, entries in _FILE.items() for name, entry in entries.items()
}
"""The readable tables that are made from Parquet files, by name."""


def made_from(parquet_tables: Collection[str]) -> dict[str, Table]:
    """The readable tables that can be made from Parquet tables, given by name, and from claims, which every run has."""
    return {
        name: table for name, table in TABLES.items() if {*parquet_tables, "claims"}.issuperset(table.inputs)
    }


def files(table: Table) -> list[str]:
    """The names of the files that `write` makes for a table, in the folder tables/ of a reproduction."""
    return [f"{table.name}.{kind}" for kind in table.kinds]


def make(table: Table, frames: Mapping[str, Any]) -> Any:
    """The `structure.Readable` of a table, from pandas data frames given by the names of their Parquet tables."""
    module = import_module(f"layernorm_roles.evidence.tables.{table.module}")
    readable = getattr(module, table.name)(*(frames[name] for name in table.inputs))
    last = table.note if readable.parts else table.none
    return readable._replace(parts=[*readable.parts, *([last] if last else [])])
