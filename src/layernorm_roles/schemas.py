"""The schemas of the Parquet tables of results: the columns, with type, meaning and unit in each field's metadata.

schemas.csv has a line for each column of a table. A type that ends in a question mark allows nulls. Columns that
several tables share form a block, whose name begins with "of"; a line without a type puts a block's columns in a table.
Each row of a table is one observation.
"""

import csv
from pathlib import Path

import pyarrow as pa

ANY, NORM, OWN = "any", "norm", "own"
"""Values of the column `queries` in tables of ceilings, the largest attention weights that queries give a key: over all
vectors, over what a head can compute from outputs of its norm, or over the queries of the text itself."""
AS_USED, WITHOUT_NORM = "as used", "without norm"
"""Values of the column `normalised` in tables of the largest attention weights of keys: the keys as the heads compute
them, or as they would if the norm scaled all vectors of a text by one number (`heads.keys.keys_without_norm`)."""
CEILING_SHARES = tuple(sorted({0.5, *(float(f"{10 ** (-k / 50):.4g}") for k in range(151))}))
"""Attention weights, 0.5 and fifty a decade from 0.001 to 1: tables count keys to which no query can give as much."""
CEILING_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""The quantiles that tables hold of the ceilings of keys, the largest attention weights that queries can give them."""

STORED = {"compression": "zstd", "compression_level": 9, "write_page_checksum": True}
"""The options of pyarrow.parquet.write_table with which all Parquet files are written."""

_TYPES = {"str": "string", "int": "int64", "float": "float64"}
"""Names of types in schemas.csv that Arrow calls by other names."""


def _type(name: str) -> pa.DataType:
    item = name.removeprefix("list of ")
    kind = pa.type_for_alias(_TYPES.get(item, item))
    return kind if item == name else pa.list_(kind)


def _read(path: Path) -> dict[str, pa.Schema]:
    """The schemas that the lines of the CSV file at `path` describe, by the names of the tables."""
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
"""The schema of every Parquet table by its name; the metadata of each field has the column's meaning and unit."""
