"""Files that appear whole or not at all, each with a checksum beside it.

Every output of the project is written through `atomic_write` and read through `verify` or `read_bytes`. The SHA-256
of `folder/name` is kept in `folder/.sha256/name`, in the format of `sha256sum`:

    cd results/default/parquet && sha256sum --check .sha256/*
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKSUMS = ".sha256"
"""Name of the hidden folder that holds the checksums of the files beside it."""


class Unusable(ValueError):
    """A file of the results is missing, damaged or not what its reader expects; the message begins with its path."""

    @classmethod
    def because(cls, path: str | Path, reason: str) -> "Unusable":
        """The error of an existing file, which says what to do."""
        return cls(f"{path}: {reason}; delete it and run again")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends without an error, it becomes `path`.

    A reader sees the complete new file or what was there before. The temporary name carries the process id, so that
    a process left over from a killed run and the one that replaces it never share a file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays last, because matplotlib and others choose the format by it.
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        _record(path, sha256_of(partial))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, and its SHA-256 to the hidden folder beside it."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_bytes(path: str | Path) -> bytes:
    """Return the content of `path`. Raises Unusable if it is missing, has no checksum or differs from it."""
    return _checked(Path(path), lambda file: (content := file.read_bytes(), hashlib.sha256(content)))


def verify(path: str | Path) -> None:
    """Raise Unusable if `path` is missing, has no checksum or differs from it; read it piece by piece."""
    _checked(Path(path), lambda file: (None, _digest(file)))


def faults(folder: str | Path, beside: tuple[str, ...] = ()) -> list[str]:
    """One sentence for each file under `folder` that is damaged or has no checksum, and says what to do.

    Left out are files that are being written, and those of the folders right under `folder` whose names are in
    `beside`, such as logs, which programs write that know nothing of checksums.
    """
    folder, found = Path(folder), []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        hidden = path.parent.name == CHECKSUMS or path.name.startswith(".")
        if hidden or path.relative_to(folder).parts[0] in beside:
            continue
        try:
            verify(path)
        except Unusable as fault:
            found.append(str(fault))
    return found


def sha256_of(path: str | Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    return _digest(Path(path)).hexdigest()


def recorded(path: str | Path) -> str | None:
    """The SHA-256 that was recorded when `path` was written, in hexadecimal digits; None if there is none."""
    try:
        return checksum_file(path).read_text(encoding="ascii").partition(" ")[0]
    except (OSError, UnicodeDecodeError):
        return None


def _checked(path: Path, read):
    try:
        content, digest = read(path)
        line = checksum_file(path).read_text(encoding="ascii")
    except FileNotFoundError as missing:
        if Path(missing.filename or path) == path:
            raise Unusable(f"{path}: no such file") from None
        raise Unusable.because(path, f"no checksum in {CHECKSUMS}/") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable.because(path, f"not readable ({error})") from None
    if line != _line(path, digest.hexdigest()):
        raise Unusable.because(path, "damaged, its SHA-256 is not the one recorded")
    return content


def checksum_file(path: str | Path) -> Path:
    """The path of the file that holds the checksum of `path`, whether or not it exists."""
    path = Path(path)
    return path.parent / CHECKSUMS / path.name


def _digest(path: Path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _line(path: Path, digest: str) -> str:
    return f"{digest}  {path.name}\n"


def _record(path: Path, digest: str) -> None:
    record = checksum_file(path)
    record.parent.mkdir(exist_ok=True)
    partial = record.with_name(f".{record.name}.{os.getpid()}.partial")
    partial.write_text(_line(path, digest), encoding="ascii")
    partial.replace(record)
