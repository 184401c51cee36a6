"""report.html: one page of verdicts, their evidence and its provenance, beside the files that it shows."""

import io
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from layernorm_roles import files, store
from layernorm_roles.evidence.claims import MEANINGS, Claim
from layernorm_roles.evidence.figures import registry as figures
from layernorm_roles.evidence.page import findings, sections, vectors
from layernorm_roles.evidence.page.text import (
    PAPER,
    RELEASED_CODE,
    SOURCES,
    TEXTS,
    command,
    mathematics,
    script_json,
    slug,
    source_of,
)
from layernorm_roles.evidence.tables import registry as readable
from layernorm_roles.evidence.tables.structure import Grid
from layernorm_roles.evidence.tables.typography import interval, number, typeset
from layernorm_roles.evidence.tables.verdicts import judged

TITLE = "What LayerNorm does for attention"
HERE = Path(__file__).parent
VERDICT_FIGURES = ("claims_forest",)
"""Figures that show verdicts; a page without verdicts leaves them out."""
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
    """PNG files by the name of the figure, which the page finds beside itself, in figures/."""
    settings: Mapping[str, Any]
    """The configuration as plain dictionaries, with the keys of config.yaml."""
    durations: Path | None = None
    """The CSV file of durations, or None if nobody measured them."""
    options: str = ""
    """What a snakemake command needs after its targets to mean this reproduction, e.g. --configfile FILE."""


def write(reproduction: Reproduction, folder: str | Path) -> None:
    """Write report.html, the page of a reproduction, and findings.html, its findings as a paper, to a folder.

    Equal inputs give equal bytes.
    """
    templates, evidence = environment(), _Evidence(reproduction)
    for name, variables in {"report": evidence.context(), "findings": evidence.findings()}.items():
        text = templates.get_template(f"{name}.html.j2").render(variables)
        files.write_text(Path(folder) / f"{name}.html", text)


def environment() -> Environment:
    """The environment of the templates beside this file, which escapes everything that is not markup.

    The macros of parts.html.j2 are there as `structure`.
    """
    loader = FileSystemLoader(HERE, encoding="utf-8")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    found.filters["math"] = mathematics
    found.filters["slug"] = slug
    found.filters["address"] = quote
    found.globals["structure"] = found.get_template("parts.html.j2").module
    return found


def beside(name: str) -> Markup:
    """The text of the file called `name` beside this one, as markup, which is not escaped."""
    return Markup((HERE / name).read_text(encoding="utf-8"))


class _Evidence:
    """The tables and figures of a reproduction; each is shown once, where it is asked for first."""

    def __init__(self, reproduction: Reproduction) -> None:
        self.reproduction = reproduction
        self.claims = {found.claim.name: found for found in judged(self._frame("claims"))}
        self.figures = figures.figures(reproduction.settings)
        self.shown: set[str] = set()
        """Places of the page that hold a figure or a table: a figure and a table may have one name."""
        self.too_small = sections.too_small(reproduction.settings)

    def context(self) -> dict[str, Any]:
        """The variables of report.html.j2."""
        reproduction = self.reproduction
        provenance = {name: store.read_provenance(path) for name, path in sorted(reproduction.tables.items())}
        cited = [source_of(found.claim.source) for found in self.claims.values()]
        views = vectors.views(self._frame("majority_vectors") if "majority_vectors" in provenance else None)
        return {
            "title": TITLE,
            "name": reproduction.name,
            "command": command("", reproduction.options),
            "device": ", ".join(sections.devices(provenance)),
            "commits": sections.values(provenance, "git_commit"),
            "repository": sections.repository(),
            "paper": PAPER,
            "released_code": RELEASED_CODE,
            "css": beside("report.css"),
            "controls_js": beside("controls.js"),
            "view_js": beside("view.js"),
            "views": views,
            "vectors": script_json({**vectors.BOX, "views": views}),
            "too_small": self.too_small,
            "overview": list(self._figures(VERDICT_FIGURES)),
            "tally": self._tally(),
            "sources": [source for source in SOURCES if source in cited],
            "meanings": {str(verdict): typeset(meaning) for verdict, meaning in MEANINGS.items()},
            "terms": TEXTS["terms"],
            "units": TEXTS["units"],
            "parts": [self._part(part) for part in TEXTS["parts"]],
            "provenance": sections.provenance(provenance),
            "durations": self._durations(),
            "configs": sections.configurations(provenance),
        }

    def findings(self) -> dict[str, Any]:
        """The variables of findings.html.j2."""
        found, given = findings.sections(self.claims), self.reproduction.figures
        origin = {"claims": store.read_provenance(self.reproduction.tables["claims"])}
        shown = {section.figure for section in found} & {*given}
        return {
            "title": TITLE,
            "name": self.reproduction.name,
            "commits": sections.values(origin, "git_commit"),
            "too_small": self.too_small,
            "text": findings.prose(),
            "sections": found,
            "pictures": {name: picture(self.figures[name], given[name]) for name in shown},
            "advice": findings.advice(self.claims),
        }

    def _frame(self, name: str) -> pd.DataFrame:
        return store.read(self.reproduction.tables[name], name)

    def _tally(self) -> list[tuple[str, int]]:
        counts = Counter(found.row.verdict for found in self.claims.values())
        return [] if self.too_small else [(str(word), counts[word]) for word in MEANINGS if counts[word]]

    def _part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A part of report.yaml: claims with their evidence, then the figures that no claim of any part shows."""
        claims = [found.claim for found in self.claims.values()]
        groups = sections.groups(claim for claim in claims if claim.part == part["name"])
        # Claims that repeat another one are folded, so a figure of both stands with the other one.
        firsts = [self._claim(first) for first, *_ in groups]
        again = [[self._claim(claim) for claim in others] for _, *others in groups]
        used = {name for claim in claims for name in claim.figures}
        of_part = [name for name, figure in self.figures.items() if figure.category in part["categories"]]
        return {
            **part,
            "groups": [{"first": first, "again": rest} for first, rest in zip(firsts, again, strict=True)],
            "figures": [*self._figures(name for name in of_part if name not in used)],
        }

    def _claim(self, claim: Claim) -> dict[str, Any]:
        found = self.claims[claim.name]
        row = found.row
        texts = ("statement", "source", "statistic", "setting", "control", "reason")
        kind = "matrices" if claim.target == "random_keys" else "runs"
        return {
            **row,
            **{key: typeset(row[key]) for key in texts},
            "name": claim.name,
            "words": claim.name.replace("_", " "),
            "again": typeset(claim.source.rpartition("; ")[2]),
            "verdict": "" if self.too_small else row.verdict,
            "from": source_of(claim.source),
            "paper_value": _text(row.paper_value),
            "measured": number(row.measured),
            "interval": interval(row.ci_low, row.ci_high),
            "control_measured": number(row.control_measured),
            "control_interval": interval(row.control_low, row.control_high),
            "control_name": typeset(row.control.partition(";")[0]),
            "unit": typeset(claim.unit),
            "size": found.size,
            "effect": "" if pd.isna(row.effect) else str(float(row.effect)).replace("inf", "Infinity"),
            "also_passed_by": _text(row.also_passed_by),
            "runs": f"{row.n_seeds:,} {kind}" if row.n_seeds > 1 else "nothing is random",
            "rule": typeset(claim.rule),
            "p_holm": "" if pd.isna(row.p_holm) else f"{row.p_holm:.2g}",
            "figures": list(self._figures(claim.figures)),
            "tables": list(self._tables(claim.shown)),
            "command": command(claim.target, self.reproduction.options),
        }

    def _figures(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            if name in self.reproduction.figures and not (self.too_small and name in VERDICT_FIGURES):
                first = name not in self.shown
                self.shown.add(name)
                yield (
                    picture(self.figures[name], self.reproduction.figures[name]) if first else {"name": name}
                )

    def _tables(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            table = readable.TABLES[name]
            if f"table-{name}" in self.shown:
                yield {"name": name, "title": table.title}
            elif set(table.inputs) <= set(self.reproduction.tables):
                self.shown.add(f"table-{name}")
                parts = readable.make(table, {name: self._frame(name) for name in table.inputs}).parts
                rows = sum(len(part.rows) for part in parts if isinstance(part, Grid))
                yield {
                    "name": name,
                    "title": table.title,
                    "parts": parts,
                    "folded": rows > FOLDED,
                    "files": [
                        f"tables/{name}.csv",
                        *(f"parquet/{source}.parquet" for source in table.inputs),
                    ],
                }

    def _durations(self) -> list[Any]:
        if self.reproduction.durations is None:
            return []
        frame = pd.read_csv(io.BytesIO(files.read_bytes(self.reproduction.durations)))
        return readable.make(readable.DURATIONS, {"durations": frame}).parts


def picture(figure: figures.Figure, png: Path) -> dict[str, Any]:
    """A figure as the page shows it: its caption, and where the picture and other files lie beside the page."""
    return {
        "name": figure.name,
        "caption": typeset(figure.caption),
        "files": [f"figures/{figure.name}.pdf", *(f"parquet/{name}.parquet" for name in figure.tables)],
        "source": quote(f"figures/{figure.name}.png"),
        **size(files.read_bytes(png)),
    }


def size(png: bytes) -> dict[str, Any]:
    """The size of the content of a PNG file in pixels of the screen."""
    width, height = struct.unpack(">II", png[16:24])
    # Figures are drawn for paper at 220 pixels an inch; a screen has 96, and shows them a little larger.
    scale = 96 / 220 * 1.2
    return {
        "width": round(width * scale),
        "height": round(height * scale),
        "wide": width * scale > 500,
    }


def _text(value: Any) -> str:
    return "" if pd.isna(value) else typeset(value)
