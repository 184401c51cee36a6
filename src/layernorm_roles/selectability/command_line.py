"""The command `certify-keys FILE`: which rows of a matrix some query can select, by giving them the highest score."""

import argparse
import csv
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles import __version__, files
from layernorm_roles.provenance import provenance
from layernorm_roles.schemas import SCHEMAS, STORED
from layernorm_roles.selectability.arrays import checked, row_blocks
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify
from layernorm_roles.selectability.matrices import FORMATS, load
from layernorm_roles.selectability.threads import Work

_NAMED = 20
"""Number of unselectable rows that `certify-keys` lists, at most."""
_DESCRIPTION = """\
Say for each row of a matrix whether some query q gives it the strictly highest score q.k, with proof: a query that
does, or a convex combination of other rows that equals the row, so that no query can."""
_WORDS = """\
What is printed and written:
  selectable    a query puts the row first; its margin is the lead over the best other row, divided by the largest
                score that entries of the columns' sizes could make with that query
  unselectable  weights above 0, of sum 1, of other rows average to the row; the residual is how far they miss it,
                divided by the largest magnitude in the column
  borderline    neither is shown; the last digits of the entries decide
  tolerance     what margins have to exceed and residuals may reach: 1e-9 for float64, 1e-6 for float32 and less
  duplicate     another row (with the same bias) is equal, so that neither can win alone"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command certify-keys with `arguments`, by default the command line's; return its exit status.

    The status is 0; 2 for bad input, which a line on standard error describes; or 130 after Ctrl-C.
    """
    try:
        options = _parser().parse_args(arguments)
        _run(options)
        return 0
    except (ValueError, OSError) as error:
        fault = str(error)
    except MemoryError:
        fault = f"{options.file}: too large for the memory"
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"certify-keys: {_printable(fault)}", file=sys.stderr)
    return 2


def _run(options: argparse.Namespace) -> None:
    _check(options)
    keys, taken = load(options.file, options.tensor, options.header)
    bias = None if options.bias is None else _bias(options, keys)
    keys, first = _rows(options.file, keys, options.rows)
    try:
        certificates = _certified(keys, bias, options.causal, options.flat)
    except ValueError as error:
        raise ValueError(f"{options.file}: {error}") from None
    if options.out:  # before anything is printed, which fails where nobody reads it
        _write(options, certificates, first)
    print(summary(options.file, keys, certificates, taken, first))
    if options.out:
        left_out = "; its proofs need a .parquet file" if options.out.suffix == ".csv" else ""
        print(f"written: {_printable(str(options.out))}{left_out}")


def _bias(options: argparse.Namespace, keys: np.ndarray) -> np.ndarray:
    bias = load(options.bias, options.bias_tensor, options.header).values
    bias = bias[:, 0] if bias.ndim == 2 and bias.shape[1] == 1 else bias  # a table of one column
    if bias.shape != keys.shape[:1]:
        raise ValueError(f"{options.bias}: bias has shape {bias.shape}: expected {keys.shape[:1]}")
    bias = checked(bias, f"{options.bias}: bias", dimensions=1)
    return _rows(options.bias, bias, options.rows)[0]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """Raise ValueError with argparse's message in one line, instead of printing the usage and exiting."""
        raise ValueError(f"{message}; see certify-keys --help")


def _parser() -> argparse.ArgumentParser:
    holds = "\n".join(f"  {ending:<24}{what}" for ending, (what, _) in FORMATS.items())
    parser = _Parser(
        prog="certify-keys",
        description=_DESCRIPTION,
        epilog=f"{_WORDS}\n\nWhat a file may hold:\n{holds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="matrix of keys, one a row; formats: see below")
    parser.add_argument(
        "--tensor", metavar="NAME", help="which tensor, array or column, where a file holds several"
    )
    parser.add_argument(
        "--rows",
        type=_slice,
        metavar="FIRST:STOP",
        help="rows FIRST to STOP - 1, from 0, are the whole matrix: the other rows, and their biases, do not compete "
        "(the rows of padding at the end of a vocabulary, say)",
    )
    parser.add_argument(
        "--causal",
        action="store_true",
        help="every row competes with the rows before it only, as the keys of a text do in a causal model",
    )
    parser.add_argument(
        "--flat",
        action="store_true",
        help="a direction in which all rows agree to within rounding, such as a projection leaves behind, counts as "
        "constant; without it, rows inside by the other directions are borderline",
    )
    parser.add_argument("--bias", type=Path, metavar="FILE", help="a bias for each row, added to its score")
    parser.add_argument("--bias-tensor", metavar="NAME", help="as --tensor, for the bias")
    parser.add_argument(
        "--header",
        action="store_true",
        help="the first line of a .csv file, and of a .csv file of the bias, names its columns; without this option "
        "numbers begin there",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write the verdicts: with their proofs to a .parquet file, without them to a .csv file",
    )
    parser.add_argument("--version", action="version", version=f"certify-keys {__version__}")
    return parser


def _slice(text: str) -> slice:
    if not re.fullmatch(r"[0-9]{0,18}:[0-9]{0,18}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected FIRST:STOP, such as 0:5000")
    return slice(*(int(part) if part else None for part in text.split(":")))


def _check(options: argparse.Namespace) -> None:
    """Raise ValueError for options that do not go together, or for a file of --out that cannot be written."""
    if options.causal and options.bias:
        raise ValueError(
            "--causal and --bias: expected one of the two, since a vocabulary's rows have no order"
        )
    if options.bias_tensor and not options.bias:
        raise ValueError("--bias-tensor without --bias: expected the file of the bias")
    inputs = [path for path in (options.file, options.bias) if path]
    if options.header and not any(path.suffix == ".csv" for path in inputs):
        raise ValueError("--header: expected only with a .csv file")
    if (out := options.out) is None:
        return
    if out.suffix not in (".parquet", ".csv"):
        raise ValueError(f"{out}: --out has the ending {out.suffix!r}: expected one of .parquet, .csv")
    if out.is_dir():
        raise ValueError(f"{out}: --out is a folder: expected a file")
    if out.exists() and any(path.exists() and out.samefile(path) for path in inputs):
        raise ValueError(f"{out}: --out would overwrite what is read; choose another file")
    try:  # now, since the search for verdicts may take an hour before they are written
        out.parent.mkdir(parents=True, exist_ok=True)
        _partial(out).touch()
        _partial(out).unlink()
    except OSError as error:
        fault = f"expected a place in a folder that can be written to ({error.strerror})"
        raise ValueError(f"{out}: --out: {fault}") from None


def _partial(out: Path) -> Path:
    return out.with_name(f".{out.stem}.{os.getpid()}.partial{out.suffix}")


def _rows(path: Path, array: np.ndarray, rows: slice | None) -> tuple[np.ndarray, int]:
    """The rows of `array` that option --rows asks for, and the first index; raises ValueError if one is missing."""
    if rows is None:
        return array, 0
    n = len(array) if array.ndim else 0
    first, stop = rows.start or 0, n if rows.stop is None else rows.stop
    if not first < stop <= n:
        raise ValueError(f"{path}: --rows {first}:{stop}: expected at least one of the rows 0:{n}")
    return array[first:stop], first


def _certified(
    keys: np.ndarray, bias: np.ndarray | None, causal: bool, flat: bool, every: float = 10.0
) -> Certificates:
    """Certificates of the keys, verified, with a line of progress on standard error every `every` seconds."""
    began, done, size = time.monotonic(), threading.Event(), " x ".join(f"{n:,}" for n in keys.shape)

    def report() -> None:
        while not done.wait(every):
            words = filter(None, (f"{time.monotonic() - began:.0f} s", Work.in_words()))
            print(f"certify-keys: {size}: {'; '.join(words)}", file=sys.stderr, flush=True)

    # Ctrl-C is to end the process at once: a Python exception would wait for compiled code.
    in_main = threading.current_thread() is threading.main_thread()  # which alone may handle signals
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if in_main else None
    threading.Thread(target=report, daemon=True).start()
    try:
        certificates = certify(keys, bias, causal, flat)
        certificates.verify(keys, bias)
        return certificates
    finally:
        done.set()
        if in_main:
            signal.signal(signal.SIGINT, before)


def _write(options: argparse.Namespace, certificates: Certificates, first: int) -> None:
    """Write verdicts, and to Parquet their proofs, to the file of --out, whole or not at all; key 0 is row `first`."""
    out, schema = options.out, SCHEMAS["key_verdicts"]
    if out.suffix == ".csv":
        schema = pa.schema([field for field in schema if not pa.types.is_list(field.type)])
    n, d = certificates.queries.shape
    tables = (_table(certificates, rows, first, schema) for rows in row_blocks(n, d))
    partial_file = _partial(out)
    try:
        if out.suffix == ".csv":
            with partial_file.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(schema.names)
                for table in tables:
                    writer.writerows(zip(*table.to_pydict().values(), strict=True))
        else:
            asked = {name: getattr(options, name) for name in ("tensor", "bias_tensor", "causal", "flat")}
            asked |= {"file": str(options.file), "bias": options.bias and str(options.bias)}
            asked["rows"] = options.rows and [first, first + n]
            schema = schema.with_metadata({"table": "key_verdicts", **provenance(asked, "cpu")})
            # Opened by Python, since pyarrow takes no path that is not in UTF-8.
            with partial_file.open("wb") as file, pq.ParquetWriter(file, schema, **STORED) as writer:
                for table in tables:
                    writer.write_table(table)
        # A checksum is there if the new file replaces a table of this project.
        files.checksum_file(out).unlink(missing_ok=True)
        partial_file.replace(out)
    except OSError as error:  # it names no file where a disk is full
        raise ValueError(f"{out}: --out: {error}") from None
    finally:
        partial_file.unlink(missing_ok=True)


def _table(certificates: Certificates, rows: slice, first: int, schema: pa.Schema) -> pa.Table:
    columns = certificates.columns(rows)
    columns["key"] += first
    columns["support"] = [None if support is None else support + first for support in columns["support"]]
    arrays = [pa.array(columns[field.name], field.type, from_pandas=True) for field in schema]
    return pa.table(arrays, schema)


def _printable(text: str) -> str:
    """`text` with control characters escaped; names of tensors and files may hold some."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def summary(path: Path, keys: np.ndarray, certificates: Certificates, taken: str = "", first: int = 0) -> str:
    """The text that certify-keys prints: keys by verdict, the unselectable rows, extreme margins and residuals."""
    n, d = keys.shape
    verdict = certificates.verdict
    among = ", each among those before it" if certificates.causal else ""
    part = f" ({_printable(taken)})" if taken else ""
    lines = [f"{_printable(str(path))}{part}: {n:,} keys, d = {d}, {keys.dtype}{among}"]
    for name, number in certificates.counts().items():
        lines.append(f"  {name:<13}{number:>9,}  {number / n:7.2%}")
    inside = np.flatnonzero(verdict == "unselectable") + first
    if len(inside):
        more = f" and {len(inside) - _NAMED:,} more" if len(inside) > _NAMED else ""
        lines.append(f"  unselectable rows, from 0: {', '.join(map(str, inside[:_NAMED].tolist()))}{more}")
    if len(margins := certificates.margin[verdict == "selectable"]):
        lines.append(f"  smallest margin {margins.min():.3g} (tolerance {certificates.tolerance:g})")
    if len(residuals := certificates.residual[verdict == "unselectable"]):
        lines.append(f"  largest residual {residuals.max():.3g}")
    lines.append(f"  exact duplicates {certificates.duplicates:,}; every certificate verified")
    return "\n".join(lines)
