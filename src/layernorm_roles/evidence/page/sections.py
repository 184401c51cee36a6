"""Parts of the pages: templates and texts, comparisons behind a claim, sizes that are too small, provenance."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from layernorm_roles.evidence.claims.rules import ACCURACY_STEP
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.readable import Cell, grid
from layernorm_roles.evidence.tables.typography import MISSING, measured, typeset

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""What report.yaml has: the report's units, terms, parts, sources and notes on reproducibility."""

UNFOLDED = 4
"""Comparisons of a claim beyond these are folded until a reader opens them, and are not printed."""

Sources = Mapping[str, Mapping[str, str]]
"""By the name of its table, what a Parquet file's metadata say of its origin, as `store.read_provenance` returns it."""


def environment() -> Environment:
    """Return the Jinja environment of the templates; those of HTML pages escape what they are given.

    They can use the macros of parts.html.j2 as `structure`, and the filters math, readable, slug and, for Markdown, md.
    """
    loader = FileSystemLoader(Path(__file__).parent, encoding="utf-8")
    escapes = {"autoescape": lambda name: str(name).endswith(".html.j2"), "undefined": StrictUndefined}
    made = Environment(loader=loader, trim_blocks=True, **escapes)
    made.filters |= {"math": mathematics, "readable": readable_html, "md": readable.escape}
    made.filters["slug"] = lambda words: words.replace(" ", "-")  # for classes and places of the page
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    made.globals["structure"] = made.get_template("parts.html.j2").module
    return made


def readable_html(parts: list[readable.Part], title: str) -> Markup:
    """Return a readable table as HTML: paragraphs, lists of sentences, and tables that scroll sideways.

    `parts` are the parts of a `Readable`; `title` names the scrolling regions for screen readers.
    """
    return Markup("\n".join(_html(part, title) for part in parts))


def _html(part: readable.Part, title: str) -> str:
    if isinstance(part, str):
        return f'<p class="small">{escape(part)}</p>'
    if isinstance(part, list):
        return f'<ul class="sentences">{"".join(f"<li>{escape(each)}</li>" for each in part)}</ul>'
    region = f'<div class="scroll" role="region" aria-label="Table: {escape(title)}" tabindex="0">'
    return f"{region}\n{readable.html(part)}\n</div>"


def source_of(named: str) -> dict[str, Any]:
    """Return the entry of report.yaml on the document that a claim names as its source.

    `named` is the claim's source. Raises StopIteration if it begins with the name of no document there.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3")["name"]
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


def compared(comparisons: pd.DataFrame, claim: str) -> list[pd.DataFrame]:
    """Return comparisons behind a claim as tables of texts: the first UNFOLDED rows, and others with a criterion."""
    rows = comparisons[comparisons.claim == claim].sort_values("number").reset_index(drop=True)
    rows = rows[(rows.index < UNFOLDED) | (rows.asked.fillna("") != "")]
    title, own = rows.comparison.str.extract(r"^(?:(.*): )?(.*)$").fillna("").to_numpy().T  # of a variation
    rows = rows.assign(title=title, own=own, unit=rows.unit.fillna(""))
    new = rows[["title", "statistic"]] != rows[["title", "statistic"]].shift()
    began = (rows.title + ": ").where(new.title & (rows.title != ""), "")
    rows["quantity"] = began + rows.own + (", " + rows.statistic).where(new.any(axis=1), "")
    cells = {
        "quantity": lambda row: typeset(row.quantity),
        "found": lambda row: measured(row.estimate, row.ci_low, row.ci_high, row.unit) or MISSING,
        "criterion": lambda row: typeset(row.asked),
        "met": lambda row: {True: "yes", False: "no"}.get(row.met, "open") if row.asked else "",
    }
    return [grid(part, cells, texts=len(cells)) for part in (rows[:UNFOLDED], rows[UNFOLDED:]) if len(part)]


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
    seeds = [each or 0 for experiment in trained for each in experiment["seeds"].values()]
    runs = max(each if isinstance(each, int) else len(each) for each in seeds)
    short = f"The longest training of the majority task has {steps:,} steps; the paper’s accuracies are compared at "
    few = f"No variant has more than {runs} {'run' if runs == 1 else 'runs'}; an interval needs {LEAST_FOR_INTERVAL}."
    sentences = {f"{short}step {ACCURACY_STEP:,}.": steps < ACCURACY_STEP, few: runs < LEAST_FOR_INTERVAL}
    return [sentence for sentence, true in sentences.items() if true]


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
