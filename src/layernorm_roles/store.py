"""Writing and reading the Parquet tables of `schemas`: whole, with their checksum, and with where they come from."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles import files, provenance
from layernorm_roles.schemas import SCHEMAS


def write(frame: pd.DataFrame, table: str, path: str | Path, origin: Mapping[str, str]) -> None:
    """Write `frame` as `table`, a key of SCHEMAS, to `path`.

    `origin`, made by `provenance.provenance`, becomes the metadata of the file. Columns may come in any order. Raises
    ValueError for missing, unknown or mistyped columns, and for a null where the schema has none.
    """
    schema = SCHEMAS[table]
    if set(frame.columns) != set(schema.names):
        difference = sorted(set(frame.columns) ^ set(schema.names))
        raise ValueError(f"{path}: table {table} and the data differ in the columns {difference}")
    try:
        arrow = pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False, safe=True)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise ValueError(f"{path}: not a {table} table: {error}") from error
    arrow = arrow.replace_schema_metadata({"table": table, **origin})
    with files.atomic_write(path) as partial:
        pq.write_table(arrow, partial, compression="zstd", write_page_checksum=True)


def read(path: str | Path, table: str, identity: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Return the table at `path`.

    `identity` is what the file must be made from: entries of the provenance's `config`. Raises ValueError if the file
    is missing, damaged, not a `table`, or made from anything else.
    """
    return read_arrow(path, table, identity).to_pandas()


def read_arrow(path: str | Path, table: str, identity: Mapping[str, Any] | None = None) -> pa.Table:
    """Return the table at `path` as Arrow holds it, which is faster than pandas for columns of lists.

    `identity` and errors are those of `read`.
    """
    # A ParquetFile, not a dataset: folder names such as seed=3 must not become columns.
    arrow = _parquet(path).read()
    if identity is not None:
        metadata = arrow.schema.metadata or {}
        provenance.refuse_other(path, json.loads(metadata.get(b"config", b"{}")), identity)
    # Columns that may not be null are declared so in the schema, and Arrow writes no null into such a column.
    if not arrow.schema.equals(SCHEMAS[table]):
        difference = _difference(arrow.schema, SCHEMAS[table])
        raise files.Unusable.because(path, f"no table {table} of this version, {difference}")
    return arrow


def _difference(found: pa.Schema, expected: pa.Schema) -> str:
    """In which columns two different schemas differ."""
    ours, theirs = (
        {f"{field.name} ({field.type}{'' if field.nullable else ', no null'})" for field in schema}
        for schema in (expected, found)
    )
    different = {"lacks": sorted(ours - theirs), "has": sorted(theirs - ours)}
    said = [f"it {verb} {', '.join(columns)}" for verb, columns in different.items() if columns]
    return " and ".join(said) or "its columns have another order"


def read_provenance(path: str | Path) -> dict[str, str]:
    """Return the provenance that the file at `path` carries. Raises ValueError if it is missing or damaged."""
    raw = _parquet(path).schema_arrow.metadata or {}
    return {key.decode(): value.decode() for key, value in raw.items()}


def collect(
    paths: Iterable[str | Path],
    table: str,
    out: str | Path,
    settings: Mapping[str, Any],
    identities: Iterable[Mapping[str, Any]],
) -> None:
    """Write the rows of all `paths`, each a `table`, one file after the other, to `out` as one table.

    `identities` says for each of the paths what its file must be made from, as `read` checks it. The table's provenance
    holds `settings`, the settings of all these files, and for every other entry all values that the files have. Raises
    ValueError if a file is missing, damaged, not a `table`, or of another run.
    """
    paths = list(paths)
    rows = pd.concat(
        [read(path, table, identity) for path, identity in zip(paths, identities, strict=True)],
        ignore_index=True,
    )
    write(rows, table, out, provenance.joined((read_provenance(path) for path in paths), settings))


def _parquet(path: str | Path) -> pq.ParquetFile:
    content = files.read_bytes(path)
    try:
        return pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise files.Unusable.because(path, f"no Parquet file ({error})") from error
