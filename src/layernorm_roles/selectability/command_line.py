"""`certify-keys FILE`: which rows of a matrix can win, from the shell."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open

from layernorm_roles import files, store
from layernorm_roles.provenance import provenance
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify, refuse_large_integers


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of certify-keys. Returns 0, or 2 with one line on standard error for input it cannot use."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (ValueError, OSError) as error:
        print(f"certify-keys: {_printable(str(error))}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"certify-keys: {_printable(str(options.file))}: too large for the memory", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    if options.out:
        _refuse_to_overwrite(options.out, [options.file, options.bias])
    keys = load(options.file, options.tensor)
    bias = None if options.bias is None else load(options.bias, options.bias_tensor)
    try:
        certificates = certify(keys, bias)
    except ValueError as error:
        raise ValueError(f"{options.file}: {error}") from None
    certificates.verify(keys, bias)
    print(summary(options.file, keys, certificates))
    if options.out:
        origin = provenance({"file": str(options.file), "tensor": options.tensor}, "cpu")
        store.write(verdicts(certificates), "key_verdicts", options.out, origin)
        print(f"written: {_printable(str(options.out))}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="certify-keys",
        description="Say for each row of a matrix whether some query gives it the highest score, with proof.",
    )
    parser.add_argument("file", type=Path, help="matrix of keys, one a row: .npy, .parquet or .safetensors")
    parser.add_argument(
        "--tensor", metavar="NAME", help="which tensor (.safetensors) or list column (.parquet)"
    )
    parser.add_argument("--bias", type=Path, metavar="FILE", help="a bias for each row, added to its score")
    parser.add_argument("--bias-tensor", metavar="NAME", help="as --tensor, for the bias")
    parser.add_argument("--out", type=Path, metavar="PARQUET", help="write verdicts and certificates here")
    version = f"certify-keys {metadata.version('layernorm-roles')}"
    parser.add_argument("--version", action="version", version=version)
    return parser


def _refuse_to_overwrite(out: Path, inputs: list[Path | None]) -> None:
    for path in inputs:
        if path and (
            out.resolve() == path.resolve() or (out.exists() and path.exists() and out.samefile(path))
        ):
            raise ValueError(f"{out}: --out would overwrite what is read; choose another file")


def _printable(text: str) -> str:
    """`text` in one line that a terminal only prints: names of tensors and files may hold control characters."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def load(path: Path, name: str | None = None) -> np.ndarray:
    """The array in a .npy, .parquet (numeric columns, or one column of lists) or .safetensors file.

    `name` picks one of several tensors or list columns. bfloat16 becomes float32, which holds it exactly. Raises
    ValueError, with the path, for a file that is missing, holds no such array, or differs from the checksum that this
    project keeps beside its own files. Pickled objects are refused.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    readers = {".npy": _from_npy, ".parquet": _from_parquet, ".safetensors": _from_safetensors}
    if path.suffix not in readers:
        raise ValueError(f"{path}: unknown kind {path.suffix!r}: expected one of {', '.join(readers)}")
    if files.checksum_file(path).exists():
        files.verify(path)
    return readers[path.suffix](path, name)


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises on a file that is damaged, or lies about its size, into one ValueError."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path}: {kind}: {error or type(error).__name__}") from None


def _from_npy(path: Path, name: str | None) -> np.ndarray:
    if name is not None:
        raise ValueError(f"{path}: a .npy file holds one array, but tensor {name!r} was asked for")
    with _reading(path, "no NumPy array"):
        # Mapped, so that a header which claims more than the file holds asks for no memory.
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


def _from_parquet(path: Path, name: str | None) -> np.ndarray:
    with _reading(path, "no Parquet table"):
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    lists = [f.name for f in table.schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    if name is not None and name not in table.column_names:
        raise ValueError(f"{path}: no column {name!r}: it has {', '.join(table.column_names)}")
    if name is None and lists:
        name = _only(path, "list column", lists)
    if any(column.null_count for column in (table.columns if name is None else [table[name]])):
        raise ValueError(f"{path}: there are nulls: expected numbers")
    if name is None:
        return _from_columns(path, table)
    column = table[name]
    if name not in lists:
        return column.to_numpy()
    lengths = set(pa.compute.list_value_length(column).to_pylist())
    if len(lengths) != 1:
        raise ValueError(
            f"{path}: the lists in column {name!r} have lengths {sorted(lengths)}: expected one length"
        )
    with _reading(path, f"column {name!r} has no numbers"):
        return np.array(column.to_pylist(), dtype=column.type.value_type.to_pandas_dtype())


def _from_columns(path: Path, table: pa.Table) -> np.ndarray:
    columns = [column.to_numpy() for column in table.columns]
    for name, column in zip(table.column_names, columns, strict=True):
        # Beside a column of floats, integers become floats before `certify` sees them.
        refuse_large_integers(column, f"{path}: column {name!r}")
    return np.column_stack(columns) if columns else np.empty((table.num_rows, 0))


def _from_safetensors(path: Path, name: str | None) -> np.ndarray:
    import torch  # whose start takes longer than most certificates

    unreadable = "not readable as safetensors"
    with _reading(path, unreadable), safe_open(path, framework="pt") as tensors:
        names = list(tensors.keys())
    if name is not None and name not in names:
        raise ValueError(f"{path}: no tensor {name!r}: it has {', '.join(names)}")
    name = name or _only(path, "tensor", names)
    with _reading(path, unreadable), safe_open(path, framework="pt") as tensors:
        tensor = tensors.get_tensor(name)
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _only(path: Path, kind: str, names: list[str]) -> str:
    if len(names) != 1:
        raise ValueError(
            f"{path}: holds {len(names)} {kind}s; choose one with --tensor: {', '.join(sorted(names))}"
        )
    return names[0]


def summary(path: Path, keys: np.ndarray, certificates: Certificates) -> str:
    """Numbers of verdicts, the weakest proofs and the duplicates, in a few lines for the terminal."""
    n, d = keys.shape
    verdict = certificates.verdict
    lines = [f"{_printable(str(path))}: {n:,} keys, d = {d}, {keys.dtype}"]
    for name in ("selectable", "unselectable", "borderline"):
        number = int((verdict == name).sum())
        lines.append(f"  {name:<13}{number:>9,}  {number / n:7.2%}")
    margins, residuals = (
        certificates.margin[verdict == "selectable"],
        certificates.residual[verdict == "unselectable"],
    )
    if len(margins):
        lines.append(f"  smallest margin {margins.min():.3g} (tolerance {certificates.tolerance:g})")
    if len(residuals):
        lines.append(f"  largest residual {residuals.max():.3g}")
    lines.append(f"  exact duplicates {certificates.duplicates:,}; every certificate verified")
    return "\n".join(lines)


def verdicts(certificates: Certificates) -> pd.DataFrame:
    """Table key_verdicts: a row for each key, with its verdict and its proof."""
    keys = range(len(certificates.code))
    queries = [certificates.query(i) for i in keys]
    combinations = [certificates.combination(i) for i in keys]
    return pd.DataFrame(
        {
            "key": keys,
            "verdict": certificates.verdict,
            "margin": certificates.margin,
            "residual": certificates.residual,
            "duplicate": certificates.duplicate,
            "query": queries,
            "support": [None if pair is None else pair[0] for pair in combinations],
            "weights": [None if pair is None else pair[1] for pair in combinations],
        }
    )


if __name__ == "__main__":
    sys.exit(main())
