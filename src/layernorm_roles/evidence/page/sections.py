"""Parts of report.html: how claims are grouped, whether sizes are too small, and where numbers come from."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from layernorm_roles.evidence.claims.claim import Claim
from layernorm_roles.evidence.claims.rules import ACCURACY_STEP
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.evidence.tables.readable import Cell, grid

Sources = Mapping[str, Mapping[str, str]]
"""By the name of its table, what a Parquet file's metadata say of its origin, as `store.read_provenance` returns it."""


def too_small(settings: Mapping[str, Any]) -> list[str]:
    """Return sentences on which sizes of a reproduction are too small for verdicts; empty if none is.

    `settings` have the keys of config.yaml. If the majority task is trained, its longest training must reach the step
    at which the paper's accuracies are compared, and some variant must have enough runs for an interval.
    """
    experiments = settings.get("majority", {}).values()
    trained = [experiment for experiment in experiments if any(experiment["seeds"].values())]
    if not trained:
        return []
    steps = max(experiment["steps"] for experiment in trained)
    runs = max(number or 0 for experiment in trained for number in experiment["seeds"].values())
    sentences = []
    if steps < ACCURACY_STEP:
        sentences.append(
            f"The longest training of the majority task has {steps:,} steps; the paper’s accuracies are compared at "
            f"step {ACCURACY_STEP:,}."
        )
    if runs < LEAST_FOR_INTERVAL:
        sentences.append(
            f"No variant has more than {runs} {'run' if runs == 1 else 'runs'}; an interval needs {LEAST_FOR_INTERVAL}."
        )
    return sentences


def groups(claims: Iterable[Claim]) -> list[list[Claim]]:
    """Return the claims in groups, each of one claim and those that repeat it in other settings, in their order.

    A claim repeats another if its name and source begin with the other's, followed by _ and by a semicolon: faster_d3
    with the source "...; in three dimensions" repeats faster.
    """
    together: list[list[Claim]] = []
    for claim in claims:
        for group in together:
            first = group[0]
            if claim.name.startswith(f"{first.name}_") and claim.source.startswith(f"{first.source}; "):
                group.append(claim)
                break
        else:
            together.append([claim])
    return together


def values(sources: Sources, key: str) -> list[str]:
    """Return the different values that `key` has in any file, sorted; a value may list several, joined by commas."""
    lists = (source.get(key, "").split(", ") for source in sources.values())
    return sorted({value for values in lists for value in values if value})


def devices(sources: Sources) -> list[str]:
    """Return the devices that computed the files, without a plain "cpu" where the processor is named as well."""
    known = values(sources, "device")
    named = any(device.startswith("cpu (") for device in known)
    return [device for device in known if device != "cpu" or not named]


def configurations(sources: Sources) -> list[dict[str, str]]:
    """Return the different configurations in the files as indented JSON, each with the names of its tables."""
    names: dict[str, list[str]] = {}
    for name, source in sources.items():
        names.setdefault(source.get("config") or "{}", []).append(name)
    return [
        {"name": ", ".join(tables), "text": json.dumps(json.loads(config), indent=2, ensure_ascii=False)}
        for config, tables in names.items()
    ]


def provenance(sources: Sources) -> pd.DataFrame:
    """Return a table of texts with a row for each Parquet file: the versions, settings and device that made it."""
    columns = {
        "version": "version",
        "commit": "git_commit",
        "torch": "torch",
        "Python": "python",
        "device": "device",
        "settings (SHA-256)": "config_sha256",
    }
    cells: dict[str, Cell] = {"table": "{0[0]}.parquet"}
    for name, key in columns.items():
        end = 10 if key in ("git_commit", "config_sha256") else None
        cells[name] = lambda entry, key=key, end=end: entry[1].get(key, "")[:end]
    return grid(sources.items(), cells, texts=len(cells))
