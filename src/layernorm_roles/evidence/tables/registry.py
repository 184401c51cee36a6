"""Which readable tables a reproduction has, and for each one what it is made from and its title.

Snakemake imports this module while it plans the jobs, so it holds strings only and imports neither pandas nor
pyarrow; `make` imports the module that makes a table when it is called.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Table:
    """One readable table of a reproduction."""

    name: str
    """Name of the files without their ending, e.g. table_1."""
    module: str
    """Module of layernorm_roles.evidence.tables that makes the table; its function has the name of the table."""
    inputs: tuple[str, ...]
    """Parquet tables that the function takes, in this order, named as in layernorm_roles.schemas.SCHEMAS."""
    title: str
    """Heading on the page."""
    kinds: tuple[str, ...] = ("csv", "md")
    """Endings of the files: csv has the numbers in full precision, md is Markdown to read."""


DURATIONS = Table("durations", "durations", ("durations",), "Time taken")
"""The one table that is not made from Parquet files but from the benchmark files of the jobs."""

_KEYS = ("key_selectability",)

TABLES = {
    table.name: table
    for table in (
        Table("convergence", "majority", ("majority_metrics",), "Steps to each test loss"),
        Table("convergence_runs", "majority", ("majority_metrics",), "Steps of every run", kinds=("csv",)),
        Table("rates", "majority", ("majority_metrics",), "What each norm reaches at every learning rate"),
        Table("widths", "majority", ("majority_metrics",), "What projection costs at every width"),
        Table("size_and_projection", "majority", ("majority_metrics",), "Effects of size and projection"),
        Table("table_1", "language_model", _KEYS, "Table 1"),
        Table("table_2", "language_model", _KEYS, "Table 2"),
        Table("table_3", "language_model", (*_KEYS, "sentence_tokens"), "Table 3"),
        Table("table_4", "language_model", _KEYS, "Table 4"),
        Table("heads", "language_model", _KEYS, "Unselectable keys in the heads"),
        Table(
            "head_ceilings",
            "language_model",
            ("language_model_ceilings",),
            "How much attention a key in a head of our models can get",
        ),
        Table("baselines", "language_model", ("language_model_metrics",), "What attention is worth"),
        Table(
            "losses_by_rate",
            "language_model",
            ("language_model_metrics",),
            "Losses by learning rate and length",
        ),
        Table("pilot", "language_model", (), "The pilot of gpt_bytes"),
        Table("gaussian_law", "random_keys", ("gaussian_law",), "The law of widths"),
        Table("ceilings", "pretrained", ("attention_ceilings",), "How much attention a key can get"),
        Table(
            "ceilings_by_token",
            "pretrained",
            ("token_ceilings",),
            "Tokens whose keys can get little attention, and much",
        ),
        Table("cut_heads", "pretrained", ("pretrained_keys",), "Heads cut to fewer dimensions"),
        Table("claims", "verdicts", ("claims",), "Every claim"),
        Table("worked_numbers", "statements", ("worked_numbers",), "The worked numbers, recomputed"),
    )
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
    return getattr(module, table.name)(*(frames[name] for name in table.inputs))
