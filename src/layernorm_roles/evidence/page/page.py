"""report.html: one self-contained page of verdicts, their evidence and its provenance, from the files it is given."""

import base64
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from layernorm_roles import files, store
from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.figures import registry as figures
from layernorm_roles.evidence.page import sections, vectors
from layernorm_roles.evidence.page.text import command, mathematics, script_json
from layernorm_roles.evidence.tables import registry as readable
from layernorm_roles.evidence.tables.structure import Grid
from layernorm_roles.evidence.tables.typography import interval, typeset, with_unit
from layernorm_roles.evidence.tables.verdicts import Judged, judged

TITLE = "What LayerNorm does for attention"
HERE = Path(__file__).parent
FOLDED = 12
"""Tables with more rows than this are folded until a reader opens them."""


@dataclass(frozen=True)
class Reproduction:
    """What a page is made from; everything is named, and nothing else is read."""

    name: str
    """Name of the reproduction, the folder in results/."""
    tables: Mapping[str, Path]
    """Parquet files by the name of their table; claims must be among them."""
    figures: Mapping[str, Path]
    """PNG files by the name of the figure."""
    settings: Mapping[str, Any]
    """The configuration as plain dictionaries, with the keys of config.yaml."""
    durations: Path | None = None
    """The CSV file of durations, or None if nobody measured them."""
    options: str = ""
    """What a snakemake command needs after its targets to mean this reproduction, e.g. --configfile FILE."""


def write(reproduction: Reproduction, out: str | Path) -> None:
    """Write the page of a reproduction to the file `out`. Equal inputs give equal bytes."""
    template = environment().get_template("report.html.j2")
    files.write_text(out, template.render(_Evidence(reproduction).context()))


def environment() -> Environment:
    """The environment of the templates beside this file, which escapes everything that is not markup.

    The macros of parts.html.j2 are there as `structure`.
    """
    loader = FileSystemLoader(HERE, encoding="utf-8")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    found.filters["math"] = mathematics
    found.globals["structure"] = found.get_template("parts.html.j2").module
    return found


class _Evidence:
    """The tables and figures of a reproduction; each is shown once, where it is asked for first."""

    def __init__(self, reproduction: Reproduction) -> None:
        self.reproduction = reproduction
        self.claims = {found.claim.name: found for found in judged(self._frame("claims"))}
        settings = reproduction.settings
        self.figures = figures.figures(
            settings["majority"],
            *(settings.get(part) for part in ("language_model", "random_keys", "pretrained")),
        )
        self.shown: set[str] = set()

    def context(self) -> dict[str, Any]:
        """The variables of report.html.j2."""
        reproduction = self.reproduction
        sources = {name: store.read_provenance(path) for name, path in sorted(reproduction.tables.items())}
        views = vectors.views(self._frame("majority_vectors") if "majority_vectors" in sources else None)
        return {
            "title": TITLE,
            "name": reproduction.name,
            "command": command("", reproduction.options),
            "device": sections.common(sources, "device"),
            "commit": sections.common(sources, "git_commit")[:10],
            "css": Markup((HERE / "report.css").read_text(encoding="utf-8")),
            "js": Markup((HERE / "report.js").read_text(encoding="utf-8")),
            "views": views,
            "vectors": script_json({**vectors.BOX, "views": views}),
            "tally": self._tally(),
            "overview": list(self._figures(sections.OVERVIEW)),
            "meanings": {str(verdict): typeset(meaning) for verdict, meaning in MEANINGS.items()},
            "parts": [self._part(part) for part in sections.PARTS],
            "provenance": sections.provenance(sources),
            "durations": self._durations(),
            "configs": [
                {"name": name, "text": sections.pretty(source.get("config", ""))}
                for name, source in sources.items()
            ],
        }

    def _frame(self, name: str) -> pd.DataFrame:
        return store.read(self.reproduction.tables[name], name)

    def _tally(self) -> list[tuple[str, int]]:
        counts = Counter(found.row.verdict for found in self.claims.values())
        return [(str(verdict), counts[verdict]) for verdict in MEANINGS if counts[verdict]]

    def _part(self, part: sections.Part) -> dict[str, Any]:
        claims = [self._claim(found) for found in self.claims.values() if found.claim.part == part.name]
        return {
            "name": part.name,
            "title": part.title,
            "introduction": part.introduction,
            "claims": claims,
            "tables": list(self._tables(part.tables)),
            "figures": list(self._figures(self._left_over(part))),
        }

    def _left_over(self, part: sections.Part) -> list[str]:
        """Names of the part's figures that no claim of any part shows, such as those of a user's own experiment."""
        used = {name for found in self.claims.values() for name in found.claim.figures}
        return [
            name
            for name, figure in self.figures.items()
            if figure.category in part.categories and name not in used
        ]

    def _claim(self, found: Judged) -> dict[str, Any]:
        claim, row = found
        texts = ("statement", "source", "statistic", "setting", "control", "reason")
        kind = "matrices" if claim.target == "random_keys" else "seeds"
        return {
            "name": claim.name,
            "verdict": row.verdict,
            **{key: typeset(row[key]) for key in texts},
            "paper_value": "" if pd.isna(row.paper_value) else typeset(row.paper_value),
            "measured": with_unit(row.measured, claim.unit),
            "interval": interval(row.ci_low, row.ci_high),
            "control_measured": with_unit(row.control_measured, claim.unit),
            "control_interval": interval(row.control_low, row.control_high),
            "control_name": typeset(row.control.partition(";")[0]),
            "size": found.size,
            "also_passed_by": "" if pd.isna(row.also_passed_by) else typeset(row.also_passed_by),
            "n_seeds": int(row.n_seeds),
            "runs": f"{row.n_seeds:,} {kind}" if row.n_seeds > 1 else "nothing is random",
            "rule": typeset(claim.rule),
            "rule_fixed": row.rule_fixed,
            "figures": list(self._figures(claim.figures)),
            "tables": list(self._tables(claim.shown)),
            "command": command(claim.target, self.reproduction.options),
        }

    def _figures(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            if name in self.reproduction.figures:
                first = name not in self.shown
                self.shown.add(name)
                caption = self.figures[name].caption
                yield picture(name, caption, self.reproduction.figures[name]) if first else {"name": name}

    def _tables(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            table = readable.TABLES[name]
            if name in self.shown:
                yield {"name": name, "title": table.title}
            elif set(table.inputs) <= set(self.reproduction.tables):
                self.shown.add(name)
                parts = readable.make(table, {name: self._frame(name) for name in table.inputs}).parts
                rows = sum(len(part.rows) for part in parts if isinstance(part, Grid))
                yield {"name": name, "title": table.title, "parts": parts, "folded": rows > FOLDED}

    def _durations(self) -> list[Any]:
        if self.reproduction.durations is None:
            return []
        frame = pd.read_csv(self.reproduction.durations)
        return readable.make(readable.DURATIONS, {"durations": frame}).parts


def picture(name: str, caption: str, png: Path) -> dict[str, Any]:
    """A figure as the page holds it: its data, and its size in pixels of the screen."""
    raw = files.read_bytes(png)
    width, height = struct.unpack(">II", raw[16:24])
    # Figures are drawn for paper at 220 pixels an inch; a screen has 96, and shows them a little larger.
    scale = 96 / 220 * 1.2
    return {
        "name": name,
        "data": f"data:image/png;base64,{base64.b64encode(raw).decode()}",
        "caption": typeset(caption),
        "width": round(width * scale),
        "height": round(height * scale),
        "wide": width * scale > 500,
    }
