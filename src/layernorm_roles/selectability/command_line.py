"""`certify-keys FILE`: which rows of a matrix can win, from the shell."""

import argparse
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from layernorm_roles import __version__, files, store
from layernorm_roles.provenance import provenance
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify
from layernorm_roles.selectability.heartbeat import SECONDS, duration, heartbeat
from layernorm_roles.selectability.matrices import FORMATS, load

_OUTPUTS = (".parquet", ".csv")
_MANY = 2048
"""Keys from which on the time that they will take is estimated."""
_PARTS = (16, 8)
"""How many times fewer keys the two parts have on which the estimate rests; the second is the larger."""
_DESCRIPTION = """\
Say for each row of a matrix whether some query q gives it the strictly highest score q.k, with proof: a query that
does, or a convex combination of other rows that equals the row, so that no query can."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of certify-keys. Returns 0, or 2 with one line on standard error for input it cannot use."""
    file = ""
    try:
        options = _parser().parse_args(arguments)
        file = options.file
        _run(options)
    except (ValueError, OSError) as error:
        print(f"certify-keys: {_printable(str(error))}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"certify-keys: {_printable(str(file))}: too large for the memory", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    _check(options)
    keys, bias = load(options.file, options.tensor, options.header), None
    if options.bias is not None:
        bias = load(options.bias, options.bias_tensor, options.header)
        bias = bias[:, 0] if bias.ndim == 2 and bias.shape[1] == 1 else bias  # a table of one column
        if bias.shape != keys.shape[:1]:
            raise ValueError(f"{options.bias}: bias has shape {bias.shape}: expected {keys.shape[:1]}")
        bias, _ = _rows(options.bias, bias, options.rows)
    keys, first = _rows(options.file, keys, options.rows)
    try:
        certificates = _certified(keys, bias, partial(_proved, causal=options.causal, flat=options.flat))
    except ValueError as error:
        raise ValueError(f"{options.file}: {error}") from None
    print(summary(options.file, keys, certificates))
    if options.out:
        _write(options, certificates, first)
        left_out = "; its proofs need a .parquet file" if options.out.suffix == ".csv" else ""
        print(f"written: {_printable(str(options.out))}{left_out}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        """Raise what argparse would print below the usage, so that every error is one line."""
        raise ValueError(f"{message}; see certify-keys --help")


def _parser() -> argparse.ArgumentParser:
    holds = "\n".join(f"  {ending:<24}{kind.holds}" for ending, kind in FORMATS.items())
    parser = _Parser(
        prog="certify-keys",
        description=_DESCRIPTION,
        epilog=f"What a file may hold:\n{holds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="matrix of keys, one a row; formats: see below")
    parser.add_argument(
        "--tensor", metavar="NAME", help="which tensor, array or list column, where a file holds several"
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
        type=_yes_or_no,
        metavar="yes|no",
        help="whether the first line of a .csv file names its columns (default: yes if it holds no number)",
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


def _yes_or_no(text: str) -> bool:
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r}: expected yes or no")
    return text == "yes"


def _check(options: argparse.Namespace) -> None:
    """Refuse before any work what could only fail after it, and options that exclude each other."""
    if options.causal and options.bias:
        raise ValueError(
            "--causal and --bias: expected one of the two, since a vocabulary's rows have no order"
        )
    if options.bias_tensor and not options.bias:
        raise ValueError("--bias-tensor without --bias: expected the file of the bias")
    inputs = [path for path in (options.file, options.bias) if path]
    if options.header is not None and not any(path.suffix == ".csv" for path in inputs):
        raise ValueError("--header: expected only with a .csv file")
    if options.out:
        _check_output(options.out, inputs)


def _check_output(out: Path, inputs: list[Path]) -> None:
    if out.suffix not in _OUTPUTS:
        raise ValueError(f"{out}: --out has the ending {out.suffix!r}: expected one of {', '.join(_OUTPUTS)}")
    if out.is_dir():
        raise ValueError(f"{out}: --out is a folder: expected a file")
    nearest = next(folder for folder in out.absolute().parents if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise ValueError(
            f"{out}: --out: expected a place in a folder that can be written to, not in {nearest}"
        )
    for path in inputs:
        if out.resolve() == path.resolve() or (out.exists() and path.exists() and out.samefile(path)):
            raise ValueError(f"{out}: --out would overwrite what is read; choose another file")


def _rows(path: Path, array: np.ndarray, rows: slice | None) -> tuple[np.ndarray, int]:
    """The rows of an array that --rows names, and the number of the first one."""
    if rows is None:
        return array, 0
    n = len(array) if array.ndim else 0
    first, stop = rows.start or 0, n if rows.stop is None else rows.stop
    if not first < stop <= n:
        raise ValueError(f"{path}: --rows {first}:{stop}: expected at least one of the rows 0:{n}")
    return array[first:stop], first


Prove = Callable[[np.ndarray, np.ndarray | None], Certificates]
"""From keys (n, d) and biases (n,) or None to verified certificates."""


def _certified(keys: np.ndarray, bias: np.ndarray | None, prove: Prove) -> Certificates:
    """Certificates, verified; with progress on standard error where it takes longer than a few seconds."""
    title = f"certify-keys: {' x '.join(f'{size:,}' for size in keys.shape)}"
    with _ended_by_ctrl_c():
        with heartbeat(f"{title}, estimating the time"):
            expected = _expected_seconds(keys, bias, prove)
        if expected and expected > SECONDS:
            print(f"{title}: about {duration(expected)}", file=sys.stderr, flush=True)
        with heartbeat(title, expected):
            return prove(keys, bias)


def _proved(keys: np.ndarray, bias: np.ndarray | None, causal: bool, flat: bool) -> Certificates:
    certificates = certify(keys, bias, causal, flat)
    certificates.verify(keys, bias)
    return certificates


def _expected_seconds(keys: np.ndarray, bias: np.ndarray | None, prove: Prove) -> float | None:
    """A rough estimate of the time that `prove` will take, from the time that two parts of the keys take.

    It is extrapolated as a power of the number of keys: the one between the two parts, or, since costs that do not
    grow count for more in the smaller part, that of the number of keys times the number of selectable ones, with each
    of which every key is compared. Returns None for few keys, and where `prove` will raise an error.
    """
    if keys.ndim != 2 or len(keys) < _MANY or (bias is not None and len(bias) != len(keys)):
        return None
    seconds, selectable = [], []
    try:
        prove(keys[:2], None if bias is None else bias[:2])  # may compile
        for fewer in _PARTS:
            # The rows of a vocabulary are ordered by frequency: a part has frequent and rare ones.
            rows = np.linspace(0, len(keys) - 1, len(keys) // fewer).astype(int)
            began = time.perf_counter()
            found = prove(keys[rows], None if bias is None else bias[rows])
            seconds.append(time.perf_counter() - began)
            selectable.append(found.counts()["selectable"] + 1)
    except ValueError:
        return None
    step = np.log2(_PARTS[0] / _PARTS[1])
    of_time, of_comparisons = (np.log2(b / a) / step for a, b in (seconds, selectable))
    power = min(2.5, max(1.0, of_time, 1 + of_comparisons))
    return seconds[1] * _PARTS[1] ** float(power)


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """In the block, Ctrl-C ends the process at once; as a Python exception it would wait for compiled code."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _write(options: argparse.Namespace, certificates: Certificates, first: int) -> None:
    """Write the verdicts, with rows numbered as in the file, where those up to `first` - 1 were left out.

    The file appears whole or not at all. It is written in a folder of its own, in which the checksum stays that
    every table of this project gets: beside a user's file, nobody asked for it.
    """
    frame = certificates.to_frame()
    frame["key"] += first
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".certify-keys-", dir=options.out.parent) as folder:
        written = Path(folder, options.out.name)
        if options.out.suffix == ".csv":
            frame.drop(columns=["query", "support", "weights"]).to_csv(written, index=False)
        else:
            frame["support"] = [None if support is None else support + first for support in frame["support"]]
            store.write(frame, "key_verdicts", written, provenance(_asked(options, len(frame), first), "cpu"))
        files.checksum_file(options.out).unlink(missing_ok=True)  # that of a file which this one replaces
        written.replace(options.out)


def _asked(options: argparse.Namespace, n: int, first: int) -> dict[str, object]:
    """What the verdicts on `n` rows, from row `first` on, were made from, for the provenance of the file."""
    return {
        "file": str(options.file),
        "tensor": options.tensor,
        "bias": None if options.bias is None else str(options.bias),
        "bias_tensor": options.bias_tensor,
        "rows": None if options.rows is None else [first, first + n],
        "causal": options.causal,
        "flat": options.flat,
    }


def _printable(text: str) -> str:
    """`text` in one line that a terminal only prints: names of tensors and files may hold control characters."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def summary(path: Path, keys: np.ndarray, certificates: Certificates) -> str:
    """Numbers of verdicts, the weakest proofs and the duplicates, in a few lines for the terminal."""
    n, d = keys.shape
    verdict = certificates.verdict
    among = ", each among those before it" if certificates.causal else ""
    lines = [f"{_printable(str(path))}: {n:,} keys, d = {d}, {keys.dtype}{among}"]
    for name, number in certificates.counts().items():
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


if __name__ == "__main__":
    sys.exit(main())
