"""Writes and reads Parquet files with the columns in `schemas`, with checksums and metadata on where they come from.

The metadata of a file has the name of its table and the plan of the job that wrote it: all that its content depends on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles import files, provenance
from layernorm_roles.plan import Plan
from layernorm_roles.schemas import SCHEMAS, STORED

if TYPE_CHECKING:
    import pandas as pd


def write(frame: pd.DataFrame, table: str, path: str | Path, origin: Mapping[str, str]) -> None:
    """Write `frame` to `path` as a Parquet file with the columns of `table`, a key of SCHEMAS, and a checksum.

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
    _write(arrow, table, path, origin)


def _write(arrow: pa.Table, table: str, path: str | Path, origin: Mapping[str, str]) -> None:
    arrow = arrow.replace_schema_metadata({**origin, "table": table})
    split = _split(arrow)
    with files.atomic_write(path) as partial:
        named = [name for name in arrow.column_names if name not in split]
        pq.write_table(arrow, partial, **STORED, use_byte_stream_split=split, use_dictionary=named)


def _split(arrow: pa.Table) -> list[str]:
    """The names of the float columns in which more than half of the values differ.

    They are written byte by byte, which takes a third less space than a dictionary of their values.
    """
    floats = [field.name for field in arrow.schema if pa.types.is_floating(field.type)]
    return [name for name in floats if 2 * len(np.unique(arrow[name].to_numpy())) > arrow.num_rows]


def read(path: str | Path, table: str, identity: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Return the content of the Parquet file at `path`, which must have the columns of `table`, a key of SCHEMAS.

    If `identity` is given, the JSON under "config" in the file's metadata must have its entries. Raises ValueError if
    it has not, or if the file is missing, damaged, or not a `table`.
    """
    return read_arrow(path, table, identity).to_pandas(use_threads=False)


def read_arrow(path: str | Path, table: str, identity: Mapping[str, Any] | None = None) -> pa.Table:
    """Return the content of a Parquet file as an Arrow table, which is faster than pandas for columns of lists.

    The arguments and the ValueErrors are those of `read`.
    """
    # A ParquetFile, not a dataset: folder names such as seed=3 must not become columns.
    file = _parquet(path)
    try:
        # Without threads: a process that ends soon after Arrow has started its own is now and then aborted at its exit
        # (https://github.com/apache/arrow/issues/34314).
        arrow = file.read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise files.Unusable.because(path, f"a damaged Parquet file ({error})") from error
    metadata = arrow.schema.metadata or {}
    if identity is not None:
        provenance.refuse_contradiction(path, json.loads(metadata.get(b"config", b"{}")), identity)
    # Columns that may not be null are declared so in the schema, and Arrow writes no null into such a column.
    if not arrow.schema.equals(SCHEMAS[table]):
        difference = _difference(arrow.schema, SCHEMAS[table])
        raise files.Unusable.because(path, f"no table {table} of this version, {difference}")
    if metadata.get(b"table", b"").decode() != table:
        raise files.Unusable.because(path, f"no table {table}, its metadata does not name it")
    return arrow


def _difference(found: pa.Schema, expected: pa.Schema) -> str:
    """A clause that says in which columns the schema `found` differs from the schema `expected`."""
    ours, theirs = (
        {f"{field.name} ({field.type}{'' if field.nullable else ', no null'})" for field in schema}
        for schema in (expected, found)
    )
    different = {"lacks": sorted(ours - theirs), "has": sorted(theirs - ours)}
    said = [f"it {verb} {', '.join(columns)}" for verb, columns in different.items() if columns]
    return " and ".join(said) or "its columns have another order"


def read_provenance(path: str | Path) -> dict[str, str]:
    """Return the metadata of a Parquet file, as `provenance` made it. Raises ValueError if it is missing or damaged."""
    raw = _parquet(path).schema_arrow.metadata or {}
    return {key.decode(): value.decode() for key, value in raw.items()}


def refuse_unplanned(plan: Plan, paths: Iterable[str | Path]) -> None:
    """Raise ValueError if one of `paths`, Parquet files that a job reads, was made by another plan than expected.

    `plan`, the plan of the job that reads, names the jobs that should have made the files. A file whose metadata name
    none of them is not refused: those of results/published/, known by their checksums, and those with verdicts.
    """
    for path in paths:
        config = json.loads(read_provenance(path).get("config", "{}"))
        if config.get("job") in plan["made_by"]:
            provenance.refuse_contradiction(path, config, plan.of(config["job"]))


def collect(plan: Plan, paths: Iterable[str | Path], table: str, out: str | Path) -> None:
    """Write the rows of the Parquet files `paths`, each a `table`, one after the other to the one file `out`.

    `plan` names the jobs that have written the files, in the order of `paths`; it becomes config in the metadata of
    `out`, whose other entries list all values that the files have. Raises ValueError if a file is missing, damaged, not
    a `table`, or made by another plan than its job has now.
    """
    paths = list(paths)
    jobs = zip(paths, plan["made_by"], strict=True)
    found = [read_arrow(path, table, plan.of(job)) for path, job in jobs]
    # Parquet names the items of a list otherwise than the schema, which the metadata of a file would show.
    rows = pa.concat_tables(found).combine_chunks().cast(SCHEMAS[table])
    _write(rows, table, out, provenance.joined((read_provenance(path) for path in paths), plan))


def _parquet(path: str | Path) -> pq.ParquetFile:
    content = files.read_bytes(path)
    try:
        return pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise files.Unusable.because(path, f"no Parquet file ({error})") from error
