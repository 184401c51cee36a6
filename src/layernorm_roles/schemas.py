"""The Parquet tables of a reproduction: which columns each has, what they mean, and in which units.

schemas.csv has a line for each column of a table. A type that ends in a question mark allows nulls. A line without a
type stands for all columns of the block that it names; several tables share a block, whose name begins with "of".

Each table is tidy: one row is one observation. The meaning and the unit of a column are in the metadata of its field,
so that every file explains itself: `pq.read_schema(path).field("step").metadata`.
"""

import csv
from pathlib import Path

import pyarrow as pa

ANY, NORM, OWN = "any", "norm", "own"
"""Values of the column `queries`, each a set of queries that contains the next set: all vectors; the queries that a
head can compute from any output of the norm before it; the queries that the head computes on the context itself."""
AS_USED, WITHOUT_NORM = "as used", "without norm"
"""Values of the column `normalised`: the keys of the heads, or those made from the stream before the norm."""
CEILING_SHARES = tuple(sorted({0.5, *(float(f"{10 ** (-k / 50):.4g}") for k in range(151))}))
"""Attention weights below which ceilings are counted: fifty in each decade from 0.001 to 1, and a half."""
CEILING_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Quantiles of the ceilings that the tables hold: both tails, and what lies between."""

STORED = {"compression": "zstd", "compression_level": 9, "write_page_checksum": True}
"""How Parquet files are written: options of pyarrow's writers."""

_TYPES = {"str": "string", "int": "int64", "float": "float64"}
"""Names of types in schemas.csv that Arrow calls by other names."""


def _type(name: str) -> pa.DataType:
    item = name.removeprefix("list of ")
    kind = pa.type_for_alias(_TYPES.get(item, item))
    return kind if item == name else pa.list_(kind)


def _read(path: Path) -> dict[str, pa.Schema]:
    """The schemas that stand in the CSV file at `path`, by the names of the tables."""
    tables: dict[str, list[pa.Field]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, strict=True):
            fields = tables.setdefault(line["table"], [])
            if not line["type"]:
                fields += tables[line["column"]]
                continue
            kind = _type(line["type"].removesuffix("?"))
            explained = {"meaning": line["meaning"], "unit": line["unit"]}
            fields.append(pa.field(line["column"], kind, line["type"].endswith("?"), explained))
    return {name: pa.schema(fields) for name, fields in tables.items() if not name.startswith("of ")}


SCHEMAS: dict[str, pa.Schema] = _read(Path(__file__).parent / "schemas.csv")
"""The columns of every table, by the name of the table."""
