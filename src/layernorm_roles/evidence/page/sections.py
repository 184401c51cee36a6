"""The sections of report.html, and its tables of where numbers come from."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from layernorm_roles.evidence.claims.claim import Claim
from layernorm_roles.evidence.claims.rules import ACCURACY_STEP
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.evidence.tables.readable import Cell, grid

Sources = Mapping[str, Mapping[str, str]]
"""Metadata of Parquet files that say where these come from, as `provenance` makes them, by the table's name."""


def too_small(settings: Mapping[str, Any]) -> list[str]:
    """Sentences that say which sizes of a reproduction are too small for verdicts; empty if none is.

    `settings` are those of the whole reproduction, with the keys of config.yaml. The majority task decides, where it is
    trained: its longest training must reach the step at which the paper's accuracies are compared, and some variant
    must have enough runs for an interval.
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
    """The claims in groups of one and those that repeat it in other settings, in the order of the first ones.

    A claim repeats another one if its name goes on after that one's and its source after that one's and a semicolon:
    faster_d3 with the source "...; in three dimensions" repeats faster.
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
    """The different values of `key` in the provenance of all files, sorted; files made from several list theirs."""
    return sorted(
        {value for source in sources.values() for value in source.get(key, "").split(", ") if value}
    )


def devices(sources: Sources) -> list[str]:
    """Return the devices that computed the files, without a plain "cpu" where the processor is named as well."""
    known = values(sources, "device")
    named = any(device.startswith("cpu (") for device in known)
    return [device for device in known if device != "cpu" or not named]


def configurations(sources: Sources) -> list[dict[str, str]]:
    """The different configurations that the files carry, as indented JSON, each with the names of its tables."""
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
