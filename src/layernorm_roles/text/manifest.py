"""The manifest of a prepared corpus, and the check that the files beside it are still those it describes."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from layernorm_roles import store

NAME = "manifest.json"


def write(folder: Path, about: Mapping[str, Any], files: list[Path]) -> dict[str, Any]:
    """Write `about`, the SHA-256 of `files` (all in `folder`) and one of the manifest itself; returns all of it."""
    manifest = {**about, "sha256": {path.name: _sha256(path) for path in files}}
    manifest["checksum"] = _checksum(manifest)
    with store.whole(folder / NAME) as partial:
        partial.write_text(json.dumps(manifest, indent=2) + "\n")
    return manifest


def read(path: str | Path) -> dict[str, Any]:
    """The manifest at `path`. ValueError if it is missing or damaged."""
    try:
        manifest = json.loads(Path(path).read_bytes())
        if manifest["checksum"] == _checksum(manifest):
            return manifest
        fault = "its checksum does not fit"
    except (OSError, ValueError, KeyError, TypeError) as error:
        fault = repr(error)
    raise ValueError(f"{path}: damaged or no manifest ({fault}); delete it and run again")


def verify(path: str | Path) -> None:
    """Raise ValueError if the manifest beside `path` knows another content for it; without a manifest, pass."""
    path = Path(path)
    manifest = path.with_name(NAME)
    if path.exists() and manifest.exists() and _sha256(path) != read(manifest)["sha256"].get(path.name):
        raise ValueError(f"{path}: damaged, its SHA-256 is not that in {NAME}; delete it and run again")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(manifest: Mapping[str, Any]) -> str:
    body = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
