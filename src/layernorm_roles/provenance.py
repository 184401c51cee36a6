"""Metadata that says where a file of results comes from: settings, random numbers, versions and git commit."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from layernorm_roles import __version__, random_streams
from layernorm_roles.files import Unusable
from layernorm_roles.random_streams import Stream


def provenance(plan: Mapping[str, Any], device: str, *streams: Stream, torch: bool = False) -> dict[str, str]:
    """The metadata of a file of results, as a dict of texts, from which a reader can make the file again.

    The keys are config (`plan` as JSON: all that the result depends on), config_sha256 (its hash), version (of this
    package), git_commit, seed_rule (how to make the random generators of `streams` and, if `torch`, torch's own), torch
    and python (their versions), and device (the argument `device`).
    """
    return {
        **_config(plan),
        "version": __version__,
        "git_commit": git_commit(),
        "seed_rule": random_streams.describe(streams, torch),
        "torch": _torch_version(),
        "python": platform.python_version(),
        "device": device,
    }


def joined(sources: Iterable[Mapping[str, str]], settings: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a file that is joined from files with the metadata `sources`, whose different values it lists."""
    sources = list(sources)
    entries = {
        key: ", ".join(sorted({source[key] for source in sources}))
        for key in ("version", "git_commit", "seed_rule", "torch", "python", "device")
    }
    return {**_config(settings), **entries}


def _config(settings: Mapping[str, Any]) -> dict[str, str]:
    text = json.dumps(settings, sort_keys=True)
    return {"config": text, "config_sha256": hashlib.sha256(text.encode()).hexdigest()}


def refuse_contradiction(path: str | Path, stated: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise ValueError unless `stated`, read from the file `path`, has all values of `expected` at the same keys."""
    theirs, ours = _leaves(json.loads(json.dumps(stated))), _leaves(json.loads(json.dumps(expected)))
    different = [
        f"{key} = {theirs[key]!r}, expected {value!r}" if key in theirs else f"no {key}, expected {value!r}"
        for key, value in ours.items()
        if key not in theirs or theirs[key] != value
    ]
    if different:
        more = f" and {len(different) - 3} more" if len(different) > 3 else ""
        raise Unusable.because(path, f"a file of another run ({'; '.join(different[:3])}{more})")


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values in nested dictionaries and lists of dictionaries by path, as "runs.0.seed", and the lists' lengths."""
    leaves = {}
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            leaves[f"number of {prefix}{key}"] = len(value)
            value = {str(number): each for number, each in enumerate(value)}
        nested = isinstance(value, dict) and value
        leaves |= _leaves(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return leaves


@cache
def git_commit() -> str:
    """The hash of the commit that is checked out in this package's own repository; "unknown" if there is none."""
    repository = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(repository), "rev-parse", "--show-toplevel", "HEAD"]
    # Without the environment: GIT_DIR may name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    top, commit = said.splitlines()
    return commit if Path(top).resolve() == repository else "unknown"  # copied into another repository


@cache
def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "not installed"
