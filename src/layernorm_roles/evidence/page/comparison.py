"""compare_<name>.html: the claims, settings and curves of two reproductions side by side, and the table of it."""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import pandas as pd

from layernorm_roles import files, store
from layernorm_roles.evidence.analysis import comparison
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.figures import comparison as figures
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.registry import CURVES
from layernorm_roles.evidence.page import page, sections
from layernorm_roles.evidence.page.text import command
from layernorm_roles.evidence.tables.structure import MISSING, Column, Grid
from layernorm_roles.evidence.tables.typography import interval, typeset, with_unit
from layernorm_roles.provenance import joined

_UNITS = {claim.name: claim.unit for claim in CLAIMS}
"""The unit of the number of each claim, in the order of the page."""


class Side(NamedTuple):
    """One of the two reproductions; `tables` and their provenance are those of COMPARED that both have."""

    name: str
    tables: dict[str, pd.DataFrame]
    provenance: dict[str, dict[str, str]]
    settings: dict[str, Any]
    too_small: list[str]
    """Why the reproduction is too small for verdicts, see `sections.too_small`."""


def _side(folder: Path, compared: Sequence[str]) -> Side:
    """The reproduction in a folder; ValueError if a file is missing, damaged, or of another version's columns."""
    paths = {table: folder / f"parquet/{table}.parquet" for table in compared}
    tables = {table: store.read(path, table) for table, path in paths.items()}
    provenance = {table: store.read_provenance(path) for table, path in paths.items()}
    settings = json.loads(files.read_bytes(folder / "settings.json"))
    return Side(folder.name, tables, provenance, settings, sections.too_small(settings))


def write(
    here: str | Path, there: str | Path, page_out: str | Path, table_out: str | Path, options: str
) -> None:
    """Write the page and the table of a comparison of the reproduction in the folder `here` with that in `there`.

    `options` is what a snakemake command needs after its targets to mean the reproduction here. Raises ValueError if a
    file of either side is missing, damaged or has other columns than this version's.
    """
    paths = Path(here), Path(there)
    curves = [name for name in CURVES if all((path / f"parquet/{name}.parquet").is_file() for path in paths)]
    ours, theirs = (_side(path, ["claims", *curves]) for path in paths)
    table = comparison.compare(ours.tables["claims"], theirs.tables["claims"])
    template = page.environment().get_template("comparison.html.j2")
    text = template.render(_context(ours, theirs, table, options))
    origin = joined((side.provenance["claims"] for side in (ours, theirs)), {"against": theirs.name})
    store.write(table, "comparison", table_out, origin)
    files.write_text(page_out, text)


def _context(here: Side, there: Side, table: pd.DataFrame, options: str) -> dict[str, Any]:
    """The variables of comparison.html.j2."""
    judged = not (here.too_small or there.too_small)
    drawn, left_out = [], []
    style.theme()
    for name in (name for name in CURVES if name in here.tables):
        group, columns = CURVES[name]
        found, rest = comparison.shared(here.tables[name], there.tables[name], group)
        drawn += [_picture(each, columns, here, there) for each in found]
        left_out += rest
    rows = [_row(row, judged) for row in _ordered(table)]
    counts = Counter(table.numbers)
    unlike = comparison.differences(here.settings, there.settings)
    return {
        "title": f"{here.name} against {there.name}",
        "here": here.name,
        "there": there.name,
        "css": page.beside("report.css"),
        "too_small": [f"{side.name}: {' '.join(side.too_small)}" for side in (here, there) if side.too_small],
        "changed": Counter(table.verdicts)["changed"] if judged else 0,
        "compared": int(table.verdict.notna().mul(table.against_verdict.notna()).sum()) if judged else 0,
        "numbers": [(word, counts[word]) for word in comparison.MEANINGS if counts[word]],
        "rows": [row for row in rows if not row["equal"]],
        "equal": [row for row in rows if row["equal"]],
        "settings": Grid(
            (Column("setting"), Column(here.name), Column(there.name)),
            [[cell or MISSING for cell in setting] for setting in unlike],
        ),
        "made_by": _made_by(here, there),
        "figures": drawn,
        "left_out": left_out,
        "words": {word: typeset(meaning) for word, meaning in comparison.MEANINGS.items()},
        "meanings": {str(verdict): typeset(meaning) for verdict, meaning in MEANINGS.items()},
        "file": f"parquet/compare_{there.name}.parquet",
        "command": command("compare", f"{options} --config against={there.name}"),
    }


def _ordered(table: pd.DataFrame) -> list[Any]:
    """The rows as a reader wants to see them: changed verdicts, then unlike numbers, then the rest."""
    numbers, claims = [*comparison.MEANINGS], [*_UNITS]

    def place(row: Any) -> tuple[int, ...]:
        order = claims.index(row.claim) if row.claim in _UNITS else len(claims)
        return comparison.VERDICTS.index(row.verdicts), numbers.index(row.numbers), order

    return sorted(table.itertuples(), key=place)


def _row(row: Any, judged: bool) -> dict[str, Any]:
    return {
        "claim": row.claim,
        "statement": typeset(row.statement),
        "statistic": typeset(row.statistic if pd.notna(row.statistic) else row.against_statistic),
        "numbers": row.numbers,
        "verdicts": row.verdicts if judged else "",
        "equal": row.verdicts == "same" and row.numbers in ("identical", "not measured"),
        "sides": [_found(row, prefix, judged) for prefix in ("", "against_")],
    }


def _found(row: Any, prefix: str, judged: bool) -> dict[str, Any]:
    """What one side found of a claim, from the columns of table `comparison` whose names begin with `prefix`."""
    names = ("measured", "ci_low", "ci_high", "n_seeds", "verdict")
    measured, low, high, seeds, verdict = (getattr(row, f"{prefix}{name}") for name in names)
    return {
        "there": pd.notna(verdict),
        "measured": with_unit(measured, _UNITS.get(row.claim, "")),
        "interval": interval(low, high),
        "runs": f"{seeds:,} runs" if pd.notna(seeds) and seeds > 1 else "",
        "verdict": verdict if judged and pd.notna(verdict) else "",
    }


def _made_by(here: Side, there: Side) -> Grid:
    """A row for everything that made the two reproductions, beside their settings."""
    names = {"git_commit": "commit", "python": "Python"}
    rows = []
    for key in ("version", "git_commit", "torch", "python", "device"):
        found = (sections.values(side.provenance, key) for side in (here, there))
        rows.append([names.get(key, key), *(", ".join(value[:10] for value in values) for values in found)])
    return Grid((Column("made with"), Column(here.name), Column(there.name)), rows)


def _picture(
    shared: comparison.Shared, columns: tuple[str, ...], here: Side, there: Side
) -> Mapping[str, Any]:
    figure = figures.overlay(shared, columns, (here.name, there.name))
    content = style.png(figure)
    plt.close(figure)
    caption = (
        f"{shared.name}: means over the runs of {here.name} (thin) on those of {there.name} (wide and pale)."
    )
    return {
        "name": f"curves-{shared.name}",
        "caption": typeset(caption),
        "files": [],
        "source": f"data:image/png;base64,{base64.b64encode(content).decode()}",
        **page.size(content),
    }
