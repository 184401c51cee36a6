"""Datasets of the Hugging Face hub as Parquet files, which one job downloads and the others read.

A file holds what a source of the configuration asks for and nothing else: its documents in the column that the source
names, or its sentences with their classes.
"""

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
    """Download the documents or sentences that `source` asks for to the Parquet file `path`; return their number.

    The dataset of `source`, whose kind is hub, lies on the Hugging Face hub or in a local folder with the layout of
    the hub. Raises ValueError if the dataset cannot be read or has no such texts.
    """
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


def read(source: Source, folder: str | Path | None) -> Iterator[dict[str, Any]]:
    """The rows that `download` has written for `source` to a file in `folder`, in the order of the dataset.

    A row is a dict by column. Raises ValueError if there is no such file, or it is damaged, or `folder` is None.
    """
    if folder is None:
        raise ValueError(
            f"dataset {source.dataset!r} of the hub was not downloaded: no folder is given for it"
        )
    path = Path(folder) / source.file_name
    files.verify(path)
    # Without threads, see `store.read_arrow`.
    for batch in pq.ParquetFile(path).iter_batches(TOGETHER, use_threads=False):
        yield from batch.to_pylist()


def joined(rows: Iterator[Mapping[str, Any]], source: Source) -> Iterator[str]:
    """The texts of rows; where the source has `joined_by`, neighbouring rows with an equal value make one text.

    A text that a row repeats within such a group is taken once: SQuAD has a row for every question about a paragraph.
    """
    if source.joined_by is None:
        yield from (row[source.column] for row in rows)
        return
    for _, group in groupby(rows, key=lambda row: row[source.joined_by]):
        yield "\n".join(dict.fromkeys(text for row in group if (text := row[source.column])))


def _named(source: Source) -> str:
    return f"dataset {source.dataset!r} ({source.config}, split {source.split})"


def _rows_of_hub(source: Source) -> Iterator[dict[str, Any]]:
    """The rows of a dataset, read shard after shard: `limit` documents do not download twenty gigabytes."""
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
