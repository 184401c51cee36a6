"""Parts of report.html: its texts, how claims are grouped, whether sizes are too small, where numbers come from."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from markupsafe import Markup, escape

from layernorm_roles.evidence.claims.rules import ACCURACY_STEP
from layernorm_roles.evidence.claims.testing import Claim
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.evidence.tables.readable import Cell, grid
from layernorm_roles.evidence.tables.typography import typeset

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""What report.yaml has: the report's units, terms, parts and sources."""

Sources = Mapping[str, Mapping[str, str]]
"""By the name of its table, what a Parquet file's metadata say of its origin, as `store.read_provenance` returns it."""


def source_of(named: str) -> dict[str, Any]:
    """Return the entry of report.yaml on the document that a claim names as its source.

    `named` is the claim's source. Raises StopIteration if it begins with the name of no document there.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3; on other data")["name"]
    'paper'
    """
    return next(source for source in TEXTS["sources"] if named.startswith(tuple(source["begins"])))


def command(target: str, options: str) -> str:
    """Return the shell command with which Snakemake makes `target`, with `options` at the end.

    Options have to come after the target, since some, such as --configfile, take several values.

    >>> command("majority", " --configfile mine.yaml")
    'snakemake --cores all majority --configfile mine.yaml'
    """
    return " ".join(word for word in ("snakemake --cores all", target, options.strip()) if word)


def mathematics(text: str) -> Markup:
    """Return `text` as HTML, with true minus signs, unbroken intervals, and subscripts in names such as d_k.

    >>> mathematics("d_k > 8 [7, 9]")
    Markup('<i>d</i><sub>k</sub> &gt; 8 [7,\\xa09]')
    """
    text = re.sub(r"\[([^][ ]+), ([^][ ]+)\]", "[\\1,\u00a0\\2]", typeset(text))
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))


def too_small(settings: Mapping[str, Any]) -> list[str]:
    """Return a sentence on each size of a reproduction that is too small for verdicts; empty if there is none.

    `settings` has the keys of config.yaml. If the majority task is trained, its longest training must have 5,000 steps,
    at which the paper's accuracies are compared, and some variant must have 3 runs, which an interval needs.
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
    """Return the claims in lists, each with a claim first and then the claims that repeat it in other settings.

    A claim repeats another if its name is the other's followed by _ and more, and its source the other's followed by a
    semicolon and more: faster_d3, with the source "...; in three dimensions", repeats faster. The order is kept.
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
    """Return the distinct values of the metadata `key` in all of `sources`, the provenance of Parquet files, sorted.

    A value that is a list joined by commas counts as several.
    """
    lists = (source.get(key, "").split(", ") for source in sources.values())
    return sorted({value for values in lists for value in values if value})


def devices(sources: Sources) -> list[str]:
    """Return the names of the devices that computed the Parquet files in `sources`, sorted.

    A plain "cpu" is left out if another entry names the processor, as in "cpu (znver3 with 256-bit vectors)".
    """
    known = values(sources, "device")
    named = any(device.startswith("cpu (") for device in known)
    return [device for device in known if device != "cpu" or not named]


def configurations(sources: Sources) -> list[dict[str, str]]:
    """Return the distinct configurations that made the Parquet files in `sources`, with the names of their tables.

    Each is a dict: "text" has the configuration as indented JSON, and "name" the tables' names, joined by commas.
    """
    names: dict[str, list[str]] = {}
    for name, source in sources.items():
        names.setdefault(source.get("config") or "{}", []).append(name)
    return [
        {"name": ", ".join(tables), "text": json.dumps(json.loads(config), indent=2, ensure_ascii=False)}
        for config, tables in names.items()
    ]


def provenance(sources: Sources) -> pd.DataFrame:
    """Return a table of texts with a row for each Parquet file: the versions, settings and device it was made with."""
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
