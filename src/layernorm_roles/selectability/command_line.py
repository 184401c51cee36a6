"""`certify-keys FILE`: which rows of a matrix can win, from the shell."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from layernorm_roles import store
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of certify-keys. Returns 0, or 2 with one line on standard error for input it cannot use."""
    options = _parser().parse_args(arguments)
    try:
        keys = load(options.file, options.tensor)
        bias = None if options.bias is None else load(options.bias, options.bias_tensor)
        try:
            certificates = certify(keys, bias)
        except ValueError as error:
            raise ValueError(f"{options.file}: {error}") from None
        certificates.verify(keys, bias)
        print(summary(options.file, keys, certificates))
        if options.out:
            source = {"file": str(options.file), "tensor": options.tensor}
            about = store.provenance(source, device="cpu", seed_rule="nothing is random")
            store.write(verdicts(certificates), "key_verdicts", options.out, about)
            print(f"written: {options.out}")
    except (ValueError, OSError) as error:
        print(f"certify-keys: {error}", file=sys.stderr)
        return 2
    return 0


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
    return parser


def load(path: Path, name: str | None = None) -> np.ndarray:
    """The array in a .npy, .parquet (numeric columns, or one column of lists) or .safetensors file.

    `name` picks one of several tensors or list columns. ValueError names a file that holds no such thing; pickled
    objects are refused.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    readers = {".npy": _from_npy, ".parquet": _from_parquet, ".safetensors": _from_safetensors}
    if path.suffix not in readers:
        raise ValueError(f"{path}: unknown kind {path.suffix!r}: expected one of {', '.join(readers)}")
    return readers[path.suffix](path, name)


def _from_npy(path: Path, name: str | None) -> np.ndarray:
    if name is not None:
        raise ValueError(f"{path}: a .npy file holds one array, but tensor {name!r} was asked for")
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: no NumPy array: {error}") from None


def _from_parquet(path: Path, name: str | None) -> np.ndarray:
    try:
        table = pq.ParquetFile(path).read()
    except pa.ArrowException as error:
        raise ValueError(f"{path}: no Parquet table: {error}") from None
    lists = [f.name for f in table.schema if pa.types.is_list(f.type) or pa.types.is_fixed_size_list(f.type)]
    if name is not None and name not in table.column_names:
        raise ValueError(f"{path}: no column {name!r}: it has {', '.join(table.column_names)}")
    if name is None and lists:
        name = _only(path, "list column", lists)
    if any(column.null_count for column in (table.columns if name is None else [table[name]])):
        raise ValueError(f"{path}: there are nulls: expected numbers")
    if name is None:
        return table.to_pandas().to_numpy()
    column = table[name]
    if name not in lists:
        return column.to_numpy()
    lengths = set(pa.compute.list_value_length(column).to_pylist())
    if len(lengths) != 1:
        raise ValueError(
            f"{path}: the lists in column {name!r} have lengths {sorted(lengths)}: expected one length"
        )
    return np.array(column.to_pylist(), dtype=column.type.value_type.to_pandas_dtype())


def _from_safetensors(path: Path, name: str | None) -> np.ndarray:
    try:
        with safe_open(path, framework="numpy") as tensors:
            names = list(tensors.keys())
            if name is not None and name not in names:
                raise ValueError(f"{path}: no tensor {name!r}: it has {', '.join(names)}")
            return tensors.get_tensor(name or _only(path, "tensor", names))
    except (SafetensorError, TypeError) as error:
        raise ValueError(f"{path}: not readable as safetensors: {error}") from None


def _only(path: Path, kind: str, names: list[str]) -> str:
    if len(names) != 1:
        raise ValueError(
            f"{path}: holds {len(names)} {kind}s; choose one with --tensor: {', '.join(sorted(names))}"
        )
    return names[0]


def summary(path: Path, keys: np.ndarray, certificates: Certificates) -> str:
    """A few lines for the terminal."""
    n, d = keys.shape
    verdict = certificates.verdict
    lines = [f"{path}: {n:,} keys, d = {d}, {keys.dtype}"]
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
    """Table key_verdicts."""
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
