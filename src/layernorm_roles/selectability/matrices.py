"""Reads matrices from .npy, .csv, .parquet and .safetensors files, for the command certify-keys."""

import difflib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv
from safetensors import safe_open

from layernorm_roles import files
from layernorm_roles.selectability.arrays import checked

INDEX = ".safetensors.index.json"
"""Ending of the name of a JSON file that says which .safetensors file holds each tensor of a large model."""
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib")
_LISTED = 40  # so many names of tensors are listed in an error
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"} | {
    f"{kind[0].upper()}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}  # names of dtypes in safetensors files, and what they are called elsewhere


class Matrix(NamedTuple):
    """An array that was read from a file, with a text that says which part of the file it is."""

    values: np.ndarray
    taken: str
    """Which part of the file the array is, such as "tensor keys, float32"; empty if it is the whole file."""


def load(path: Path, name: str | None = None, header: bool = False) -> Matrix:
    """Read an array from a .npy, .csv, .parquet or .safetensors file, or by an index of several .safetensors files.

    `name` chooses a tensor or column where a file has several; `header` says that a .csv file begins with a line of
    names. bfloat16 becomes float32, without loss. What is no such array, or does not agree with a checksum beside it,
    raises ValueError with the path.
    """
    if not path.is_file():
        raise ValueError(
            f"{path}: {'no such file' if not path.exists() else 'a folder, pipe or device: expected a file'}"
        )
    ending = INDEX if path.name.endswith(INDEX) else path.suffix
    if ending in _PICKLES:
        raise ValueError(
            f"{path}: a {ending} file is a pickle, which runs code when it is read: save the matrix by "
            "safetensors.torch.save_file({'keys': matrix}, 'keys.safetensors') where you trust the file"
        )
    if ending not in FORMATS:
        raise ValueError(f"{path}: unknown kind {path.suffix!r}: expected one of {', '.join(FORMATS)}")
    if files.checksum_file(path).exists():
        files.verify(path)
    _, read = FORMATS[ending]
    return read(path, name, header) if ending == ".csv" else read(path, name)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Within the block, turn any exception that a library raises on a damaged file into a ValueError with the path."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path}: {kind}: {error or type(error).__name__}") from None


def _from_npy(path: Path, name: str | None) -> Matrix:
    _holds_one(path, name)
    with _reading(path, "no NumPy array"), np.errstate(over="ignore"):
        # Mapped, so that a header which claims more than the file holds asks for no memory.
        return Matrix(np.array(np.load(path, mmap_mode="r", allow_pickle=False)), "")


def _from_csv(path: Path, name: str | None, header: bool) -> Matrix:
    _holds_one(path, name)
    read = csv.ReadOptions(use_threads=False, autogenerate_column_names=not header)
    # Words such as NA and true are neither numbers left out nor truth values.
    convert = csv.ConvertOptions(null_values=[""], true_values=[], false_values=[])
    with _reading(path, "no table of numbers separated by commas"), path.open("rb") as file:
        table = csv.read_csv(file, read, convert_options=convert)
    names = [name.strip() for name in table.column_names]
    if "" in names:
        hint = "the index that pandas writes? to_csv(index=False)"
        raise ValueError(f"{path}: column {names.index('')} has no name: {hint}")
    expected = "expected numbers such as 1.5 and -2e-3"
    expected += "" if header else ", or --header if the first line names the columns"
    columns = []
    for number, column in enumerate(table.columns):
        if len(column) and column.null_count:
            raise ValueError(f"{path}: column {number} has an empty cell: {expected}")
        with _reading(path, f"column {number}: {expected}"):
            columns.append(column.cast(pa.float64()).to_numpy())  # refuses integers beyond 2^53, too
    taken = "the first line names the columns" if header else "numbers from the first line on"
    return Matrix(np.column_stack(columns), taken)


def _from_parquet(path: Path, name: str | None) -> Matrix:
    with _reading(path, "no Parquet table"):
        # Without threads, see `store.read_arrow`.
        table = pq.ParquetFile(path, page_checksum_verification=True).read(use_threads=False)
    # pandas keeps the numbers of rows that were chosen as a column of its own, which is no dimension of the keys.
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    table = table.drop_columns([name for name in index if isinstance(name, str)])
    kinds = {field.name: field.type for field in table.schema}
    if len(kinds) < table.num_columns:
        raise ValueError(f"{path}: two columns have one name: expected different names")
    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    lists = [column for column, kind in kinds.items() if any(test(kind) for test in is_list)]
    if name is not None and name not in kinds:
        raise ValueError(f"{path}: no column {name!r}: it has {_listed([*kinds])}")
    if name is None and lists:
        if numbers := [column for column, kind in kinds.items() if _is_numeric(kind)]:
            raise ValueError(
                f"{path}: columns of lists ({_listed(lists)}) beside columns of numbers ({_listed(numbers)}): choose "
                f"one with --tensor, such as --tensor {lists[0]}"
            )
        name = _chosen(path, "list column", lists, None)
    table = table if name is None else table.select([name])
    if any(column.null_count for column in table.columns):
        raise ValueError(f"{path}: there are nulls: expected numbers")
    if name is None:
        columns = [column.to_numpy() for column in table.columns]
        for column, values in zip(table.column_names, columns, strict=True):
            # Beside a column of floats, integers and truth values become floats before `certify` sees them.
            checked(values, f"{path}: column {column!r}", dimensions=1)
        return Matrix(np.column_stack(columns) if columns else np.empty((table.num_rows, 0)), "")
    column, taken = table[name], f"column {name}"
    if name not in lists:
        return Matrix(column.to_numpy(), taken)
    lengths = set(pc.list_value_length(column).to_pylist())
    if len(lengths) != 1:
        raise ValueError(
            f"{path}: the lists in column {name!r} have lengths {sorted(lengths)}: expected one length"
        )
    flat = pc.list_flatten(column)
    if flat.null_count or not _is_numeric(flat.type):
        raise ValueError(f"{path}: column {name!r} has no numbers, or nulls among them")
    return Matrix(flat.to_numpy().reshape(len(column), *lengths), taken)


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _from_safetensors(path: Path, name: str | None) -> Matrix:
    unreadable = "not readable as safetensors"
    with _reading(path, unreadable):
        tensors = safe_open(path, framework="np")
        slices = {key: tensors.get_slice(key) for key in tensors.keys()}
    shapes = {key: part.get_shape() for key, part in slices.items()}
    # A model has many tensors; those with the most rows, such as its vocabulary, come first.
    names = sorted(shapes, key=lambda key: (-shapes[key][0] if shapes[key] else 0, key))
    name = _chosen(path, "tensor", names, name)
    dtype = slices[name].get_dtype()
    if dtype not in _DTYPES:
        raise ValueError(
            f"{path}: tensor {name} has dtype {dtype}: expected real numbers of 16 bits or more, or integers"
        )
    with _reading(path, unreadable):
        values = _from_bfloat16(path, name, shapes[name]) if dtype == "BF16" else tensors.get_tensor(name)
    return Matrix(values, f"tensor {name}, {_DTYPES[dtype]}")


def _from_bfloat16(path: Path, name: str, shape: list[int]) -> np.ndarray:
    """A tensor of bfloat16, which NumPy does not know, as float32, whose upper half bfloat16 is."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        first, last = json.loads(file.read(length))[name]["data_offsets"]
        whole = np.fromfile(file, "<u2", (last - first) // 2, offset=first).astype("<u4")
    whole <<= 16
    return whole.view("<f4").reshape(shape)


def _from_index(path: Path, name: str | None) -> Matrix:
    with _reading(path, "no index of safetensors files"):
        shards = dict(json.loads(path.read_bytes())["weight_map"])
    name = _chosen(path, "tensor", sorted(shards), name)
    shard = shards[name]
    if not isinstance(shard, str) or not shard or Path(shard).name != shard:
        raise ValueError(
            f"{path}: tensor {name!r} is in {shard!r}: expected the name of a file beside the index"
        )
    if not (file := path.with_name(shard)).is_file():
        raise ValueError(f"{path}: tensor {name!r} is in {shard}, which is not beside the index")
    return _from_safetensors(file, name)


def _holds_one(path: Path, name: str | None) -> None:
    if name is not None:
        raise ValueError(f"{path}: a {path.suffix} file holds one array, but tensor {name!r} was asked for")


def _chosen(path: Path, kind: str, names: list[str], name: str | None) -> str:
    """`name` if it is one of `names`, the only one if `name` is None; else ValueError with a list of what there is."""
    if not names:
        raise ValueError(f"{path}: holds no {kind}: expected at least one")
    if name is None and len(names) == 1:
        return names[0]
    if name is None:
        raise ValueError(f"{path}: holds {len(names)} {kind}s; choose one with --tensor: {_listed(names)}")
    if name not in names:
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names
        raise ValueError(f"{path}: no {kind} {name!r}: it has {_listed(close, len(names))}")
    return name


def _listed(names: list[str], total: int | None = None) -> str:
    left = (total or len(names)) - min(len(names), _LISTED)
    return ", ".join(names[:_LISTED]) + (f" and {left} more" if left else "")


FORMATS = {
    ".npy": ("one array", _from_npy),
    ".csv": ("numbers; with --header, below a line of names", _from_csv),
    ".parquet": ("columns of numbers, or a column of lists", _from_parquet),
    ".safetensors": ("tensors, bfloat16 and float16 too", _from_safetensors),
    INDEX: ("the names of a model's tensors, and the file beside it that holds each", _from_index),
}
"""Maps the ending of a file's name to words on what the file may hold, and to the function that reads it."""
