"""Downloads texts and labelled sentences of the Hugging Face hub to Parquet files, once, for all processes to read."""

from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles import files
from layernorm_roles.schemas import STORED
from layernorm_roles.settings.text import Source

TOGETHER = 1000
"""Number of rows of a Parquet file that are written or read at a time."""


def download(source: Source, path: str | Path) -> int:
    """Download the texts of `source`, which must be of kind hub, to a Parquet file at `path`; return their number."""
    rows, fields = _rows_of_hub(source), [(source.column, pa.large_string())]
    if source.label_column:
        fields.append((source.label_column, pa.int64()))
        wanted = ({name: row[name] for name, _ in fields} for row in rows)
    else:
        wanted = ({source.column: text} for text in joined(rows, source) if text and text.strip())
    wanted, schema, written = islice(wanted, source.limit), pa.schema(fields), 0
    with files.atomic_write(path) as partial, pq.ParquetWriter(partial, schema, **STORED) as writer:
        while some := list(islice(wanted, TOGETHER)):
            writer.write_table(pa.Table.from_pylist(some, schema))
            written += len(some)
        if not written:
            raise ValueError(f"{_named(source)} has no texts")
    return written


def read(source: Source, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of the file that `download` wrote for `source` in `folder`, as dicts by column name."""
    if folder is None:
        raise ValueError(f"{_named(source)} was not downloaded: no folder is given for it")
    path = folder / source.file_name
    files.verify(path)
    # Without threads, see `store.read_arrow`.
    for batch in pq.ParquetFile(path).iter_batches(TOGETHER, use_threads=False):
        yield from batch.to_pylist()


def joined(rows: Iterator[Mapping[str, Any]], source: Source) -> Iterator[str]:
    """Yield the texts in the rows of a dataset, joined into documents if `source.joined_by` names a column.

    Neighbouring rows with equal values in that column, as in SQuAD, become one document. It has their texts, each on a
    line, but equal texts once.
    """
    if source.joined_by is None:
        yield from (row[source.column] for row in rows)
        return
    for _, group in groupby(rows, key=lambda row: row[source.joined_by]):
        yield "\n".join(dict.fromkeys(text for row in group if (text := row[source.column])))


def _named(source: Source) -> str:
    return f"dataset {source.dataset!r} ({source.config}, split {source.split})"


def _rows_of_hub(source: Source) -> Iterator[dict[str, Any]]:
    """The rows of a dataset, streamed: a few documents do not cost the download of twenty gigabytes."""
    try:
        from datasets import load_dataset
    except ImportError:
        raise ValueError("sources of kind hub need: pip install 'layernorm-roles[paper]'") from None
    try:
        rows = load_dataset(source.dataset, source.config, split=source.split, streaming=True)
        needed = (source.column, source.label_column, source.joined_by)
        missing = {column for column in needed if column} - set(rows.column_names)
    except Exception as error:
        raise ValueError(
            f"{_named(source)} cannot be loaded: {error}\n"
            "Without a connection to huggingface.co: download it elsewhere, keep its folder layout, and give the "
            "folder as `dataset`; or use `kind: parquet` or `kind: wikipedia_sample`, which needs no network."
        ) from error
    if missing:
        known = rows.column_names
        raise ValueError(f"dataset {source.dataset!r} has no column {sorted(missing)}; it has {known}")
    return iter(rows)
