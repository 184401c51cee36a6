"""Parts of report.html: its texts, how claims are grouped, whether sizes are too small, where numbers come from."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from markupsafe import Markup, escape

from layernorm_roles.evidence.claims.claim import Claim
from layernorm_roles.evidence.claims.rules import ACCURACY_STEP
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.evidence.tables.readable import Cell, grid
from layernorm_roles.evidence.tables.typography import typeset

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""What report.yaml has: the report's units, terms, parts and sources."""

Sources = Mapping[str, Mapping[str, str]]
"""By the name of its table, what a Parquet file's metadata say of its origin, as `store.read_provenance` returns it."""


def source_of(named: str) -> dict[str, Any]:
    """Return the entry in report.yaml of the document that a claim names as its source.

    `named` starts with one of the beginnings in the entry. Raises StopIteration if there is no such entry.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3; on other data")["name"]
    'paper'
    """
    return next(source for source in TEXTS["sources"] if named.startswith(tuple(source["begins"])))


def command(target: str, options: str) -> str:
    """Return the shell command that makes `target`, with `options` after the target.

    Snakemake requires this order, since some options, such as --configfile, take several values.

    >>> command("majority", "--configfile mine.yaml")
    'snakemake --cores all majority --configfile mine.yaml'
    """
    return " ".join(word for word in ("snakemake --cores all", target, options.strip()) if word)


def mathematics(text: str) -> Markup:
    """Return `text` as HTML, with true minus signs, intervals in one piece, and subscripts in names such as d_k."""
    text = re.sub(r"\[([^][ ]+), ([^][ ]+)\]", "[\\1,\u00a0\\2]", typeset(text))
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))


def too_small(settings: Mapping[str, Any]) -> list[str]:
    """Return sentences that say which sizes of a reproduction are too small for verdicts; empty if none is.

    `settings` has the keys of config.yaml. If the majority task is trained, its longest training must reach the step at
    which the paper's accuracies are compared, and some variant must have enough runs for an interval.
    """
    experiments = settings.get("majority", {}).values()
    trained = [experiment for experiment in experiments if any(experiment["seeds"].values())]
    if not trained:
        return []
    steps = max(experiment["steps"] for experiment in trained)
    runs = max(number or 0 for experiment in trained for number in experiment["seeds"].values())
    short = f"The longest training of the majority task has {steps:,} steps; the paper’s accuracies are compared at "
    few = f"No variant has more than {runs} {'run' if runs == 1 else 'runs'}; an interval needs {LEAST_FOR_INTERVAL}."
    sentences = {f"{short}step {ACCURACY_STEP:,}.": steps < ACCURACY_STEP, few: runs < LEAST_FOR_INTERVAL}
    return [sentence for sentence, true in sentences.items() if true]


def groups(claims: Iterable[Claim]) -> list[list[Claim]]:
    """Return the claims in groups, each with a claim first and then those that repeat it in other settings.

    A claim repeats another if its name begins with the other's name and _, and its source with the other's source and a
    semicolon: faster_d3, with the source "...; in three dimensions", repeats faster. The order of claims is kept.
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
    """Return the distinct values that `key` has in the provenance of any file, sorted.

    Where a file lists several, joined by commas, each counts by itself.
    """
    lists = (source.get(key, "").split(", ") for source in sources.values())
    return sorted({value for values in lists for value in values if value})


def devices(sources: Sources) -> list[str]:
    """Return the devices that computed the files, without a plain "cpu" where the processor is named as well."""
    known = values(sources, "device")
    named = any(device.startswith("cpu (") for device in known)
    return [device for device in known if device != "cpu" or not named]


def configurations(sources: Sources) -> list[dict[str, str]]:
    """Return the distinct configurations with which the files were made, and the names of their tables.

    Each is a dict: "text" is the configuration as indented JSON, "name" the names of the tables, joined by commas.
    """
    names: dict[str, list[str]] = {}
    for name, source in sources.items():
        names.setdefault(source.get("config") or "{}", []).append(name)
    return [
        {"name": ", ".join(tables), "text": json.dumps(json.loads(config), indent=2, ensure_ascii=False)}
        for config, tables in names.items()
    ]


def provenance(sources: Sources) -> pd.DataFrame:
    """Return a table of texts with a row for each Parquet file: the versions, settings and device that made it."""
    cells: dict[str, Cell] = {
        "table": "{.Index}.parquet",
        "version": "{.version}",
        "commit": "{.git_commit:.10}",
        "torch": "{.torch}",
        "Python": "{.python}",
        "device": "{.device}",
        "settings (SHA-256)": "{.config_sha256:.10}",
    }
    keys = ["version", "git_commit", "torch", "python", "device", "config_sha256"]
    rows = pd.DataFrame(sources, index=keys, dtype=object).T.fillna("")
    return grid(rows, cells, texts=len(cells))
