"""Writes files that appear whole or not at all, and stores a checksum of each, by which damage shows.

The SHA-256 of `folder/name` is stored in `folder/.sha256/name`, in the format of `sha256sum`:

    cd results/default/parquet && sha256sum --check .sha256/*
"""

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKSUMS = ".sha256"
"""Name of the hidden folder, one in each folder of results, that holds the checksums of the files beside it."""
ADVICE = "; delete it and run again"
"""What `Unusable.because` tells readers of an unusable file to do, at the end of its message."""


class Unusable(ValueError):
    """An error about a file of results: missing, damaged or not as expected. The message begins with its path."""

    @classmethod
    def because(cls, path: str | Path, reason: str) -> "Unusable":
        """An `Unusable` error whose message gives `path` and `reason`, and advises to delete the file and run again."""
        return cls(f"{path}: {reason}{ADVICE}")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path, whose file is renamed to `path` if no error is raised, and its SHA-256 stored."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process id keeps apart what a killed workflow left running; by the suffix matplotlib chooses the format.
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        replace_text(checksum_file(path), f"{sha256_of(partial)}  {path.name}\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def remove_partials(outputs: Iterable[str | Path]) -> None:
    """Delete partly written files, also of checkpoints, that killed processes left beside the files `outputs`."""
    for path in map(Path, outputs):
        for stem in (glob.escape(path.stem), "checkpoint*"):
            for partial in path.parent.glob(f".{stem}.*.partial*"):
                partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, whole or not at all, and store its SHA-256 in the folder .sha256 beside it."""
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")


def replace_text(path: Path, text: str) -> None:
    """Write `text` to `path` as UTF-8, whole or not at all, without storing a checksum."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def read_bytes(path: str | Path) -> bytes:
    """The content of the file at `path`, which `verify` accepts."""
    verify(path)
    return Path(path).read_bytes()


def verify(path: str | Path) -> None:
    """Raise Unusable if the file at `path` is missing, has no stored checksum, or differs from the stored checksum."""
    try:
        digest = sha256_of(path)
    except FileNotFoundError:
        raise Unusable(f"{path}: no such file") from None
    except OSError as error:
        raise Unusable.because(path, f"not readable ({error})") from None
    stored = recorded(path)
    if stored is None:
        raise Unusable(
            f"{path}: no checksum in {CHECKSUMS}/ beside it; copy it too, or delete the file and run again"
        )
    if digest != stored:
        raise Unusable.because(path, "damaged, its SHA-256 is not the one recorded")


def faults(folder: str | Path, beside: tuple[str, ...] = ()) -> list[str]:
    """A sentence on each file under `folder`, but `beside`, that is damaged, has no checksum or has left only that."""
    found = []
    for path in visible(folder, beside):
        try:
            verify(path)
        except Unusable as fault:
            found.append(str(fault))
    checksums = [path for path in _all_files(folder) if path.parent.name == CHECKSUMS and path.name[0] != "."]
    gone = [path for path in (each.parent.parent / each.name for each in checksums) if not path.exists()]
    advice = "copy it too, or name it as the target of a command"
    return found + [f"{path}: gone, while its checksum is there; {advice}" for path in gone]


def visible(folder: str | Path, beside: tuple[str, ...] = ()) -> list[Path]:
    """The sorted paths of all files under `folder` but hidden ones, checksums and the subfolders `beside`."""
    return [
        path
        for path in _all_files(folder)
        if path.is_file()
        and not (path.parent.name == CHECKSUMS or path.name.startswith("."))
        and path.relative_to(folder).parts[0] not in beside
    ]


def _all_files(folder: str | Path) -> list[Path]:
    """The paths of all files under `folder`, sorted; links to folders are followed."""
    walked = os.walk(folder, followlinks=True)
    return sorted(Path(place, name) for place, _, names in walked for name in names)


def sha256_of(*paths: str | Path) -> str:
    """The SHA-256 of the contents of the files at `paths`, joined in this order, in hexadecimal digits."""
    digest = hashlib.sha256()
    for path in paths:
        with Path(path).open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    return digest.hexdigest()


def recorded(path: str | Path) -> str | None:
    """The stored SHA-256 of the file at `path`, in hexadecimal digits, or None if no checksum is stored."""
    try:
        return checksum_file(path).read_text(encoding="ascii", errors="replace").partition("  ")[0]
    except OSError:
        return None


def checksum_file(path: str | Path) -> Path:
    """The path of the file that holds the checksum of the file at `path`, whether or not it exists."""
    path = Path(path)
    return path.parent / CHECKSUMS / path.name
