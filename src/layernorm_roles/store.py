"""Writes and reads Parquet files with the columns in `schemas`, a checksum, and metadata on where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles import files, provenance
from layernorm_roles.plan import Plan, refuse_other_run
from layernorm_roles.schemas import SCHEMAS, STORED

if TYPE_CHECKING:
    import pandas as pd


def write(frame: pd.DataFrame, table: str, path: str | Path, origin: Mapping[str, str]) -> None:
    """Write `frame` to `path` as a Parquet file that holds the table named `table`, and store the file's checksum.

    `table` is a key of `schemas.SCHEMAS`, which has the columns of each table; `frame` may have them in any order.
    `origin`, made by `provenance.provenance`, becomes the file's metadata. Raises ValueError if columns are missing,
    unknown or mistyped, or if there is a null where the schema allows none.
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
    """The names of float columns of which over half the values differ: stored byte by byte they take less space."""
    floats = [field.name for field in arrow.schema if pa.types.is_floating(field.type)]
    return [name for name in floats if 2 * len(np.unique(arrow[name].to_numpy())) > arrow.num_rows]


def read(path: str | Path, table: str) -> pd.DataFrame:
    """Read the Parquet file at `path`, which must hold the table named `table`, a key of `schemas.SCHEMAS`.

    Raises ValueError if the file is missing or damaged, or does not hold this table with its columns in SCHEMAS.
    """
    return read_arrow(path, table).to_pandas(use_threads=False)


def read_arrow(path: str | Path, table: str, made_from: str | None = None) -> pa.Table:
    """Read the Parquet file at `path` as an Arrow table, which is faster than pandas for columns of lists.

    Raises ValueError if the file is missing, damaged, or not the table named `table` with its columns in
    `schemas.SCHEMAS`, or if it was made from a plan whose hash is not `made_from`.
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
    if made_from is not None:
        refuse_other_run(path, json.loads(metadata.get(b"config", b"{}")), made_from)
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
    """The metadata of a Parquet file, as a dict from a name, such as "config", to a text.

    Raises ValueError if the file is missing or damaged.
    """
    raw = _parquet(path).schema_arrow.metadata or {}
    return {key.decode(): value.decode() for key, value in raw.items()}


def refuse_unplanned(plan: Plan, paths: Iterable[str | Path]) -> None:
    """Raise ValueError if a Parquet file in `paths` was made from another plan than the job that reads it expects.

    `plan` is the plan of the job that reads them; its entry `made_by` names the jobs that should have made the files. A
    file of any other job is accepted, such as those of results/published/, which checksums identify.
    """
    for path in paths:
        config = json.loads(read_provenance(path).get("config", "{}"))
        if expected := plan["made_by"].get(config.get("job")):
            refuse_other_run(path, config, expected)


def collect(plan: Plan, paths: Iterable[str | Path], table: str, out: str | Path) -> None:
    """Join Parquet files, each with rows of the table named `table`, in the order of `paths`; write them to `out`.

    `plan` names, in the order of `paths`, the jobs that should have written the files. `plan` becomes the entry config
    in the metadata of `out`; every other entry lists the values of all files. Raises ValueError if a file is missing or
    damaged, does not hold this table, or was not made as planned.
    """
    paths = list(paths)
    expected = zip(paths, plan["made_by"].values(), strict=True)
    found = [read_arrow(path, table, made_from) for path, made_from in expected]
    # Parquet names the items of a list otherwise than the schema, which the metadata of a file would show.
    rows = pa.concat_tables(found).combine_chunks().cast(SCHEMAS[table])
    _write(rows, table, out, provenance.joined((read_provenance(path) for path in paths), plan))


def _parquet(path: str | Path) -> pq.ParquetFile:
    content = files.read_bytes(path)
    try:
        return pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise files.Unusable.because(path, f"no Parquet file ({error})") from error
