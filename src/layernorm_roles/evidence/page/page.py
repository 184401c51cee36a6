"""The pages report.html, every verdict with its evidence and provenance, and findings.html, the results in short."""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from layernorm_roles import files, shown, store
from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.claims.testing import Claim
from layernorm_roles.evidence.page import findings, sections, vectors
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.typography import interval, number, typeset
from layernorm_roles.evidence.tables.verdicts import judged, rows_of

TITLE = "What LayerNorm does for attention"
OF_VERDICTS = "claims_forest"
"""Name of the figure that shows verdicts, which a report without verdicts leaves out."""
FOLDED = 12
"""Tables of the report with more rows than this are folded until a reader opens them."""

Inputs = Mapping[str, str | Path | Sequence[str | Path]]
"""Paths of the files that pages are made from, by their names."""


def write(plan: Mapping[str, Any], inputs: Inputs, out_report: str | Path, out_findings: str | Path) -> None:
    """Write the two HTML pages of a reproduction: the report on all claims, and the findings.

    `plan` has the reproduction's `settings`, the names of its `tables` and `figures` that the pages may show, and
    `options`, the text that follows the target in snakemake commands on the pages. It may have `kept`, the verdicts of
    results/published/ by claim, which stand beside claims that this reproduction leaves open. `inputs` has the path of
    each table by name, the table claims included, and under "figures" the paths of PNG files. The pages link to these
    in the folder figures/ beside them. Equal inputs give equal bytes.
    """
    evidence, templates = _Evidence(Path(out_report).parent.name, plan, inputs), environment()
    pages = {"report": (out_report, evidence.report()), "findings": (out_findings, evidence.findings())}
    for name, (path, variables) in pages.items():
        files.write_text(path, templates.get_template(f"{name}.html.j2").render(variables))


def environment() -> Environment:
    """Return the Jinja environment with which the HTML pages are rendered from their templates.

    Templates can use the macros of parts.html.j2 as `structure`, and the filters math, readable and slug.
    """
    loader = FileSystemLoader(Path(__file__).parent, encoding="utf-8")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.filters |= {"math": sections.mathematics, "readable": readable_html}
    made.filters["slug"] = lambda words: words.replace(" ", "-")  # for classes and places of the page
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    made.globals["structure"] = made.get_template("parts.html.j2").module
    return made


def readable_html(parts: Iterable[readable.Part], title: str) -> Markup:
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


class _Evidence:
    """What the templates show of the reproduction called `name`; `write` says what `plan` and `inputs` have."""

    def __init__(self, name: str, plan: Mapping[str, Any], inputs: Inputs) -> None:
        self.name, self.options = name, plan["options"]
        self.tables = {table: Path(inputs[table]) for table in plan["tables"]}
        pictures = {path.stem: path for path in map(Path, inputs["figures"])}
        self.pictures = {figure: pictures[figure] for figure in plan["figures"]}
        self.too_small = sections.too_small(plan["settings"])
        self._frame = cache(lambda table: store.read(self.tables[table], table))
        self._frame("claims").attrs["kept"] = {} if self.too_small else plan.get("kept", {})
        self.claims = judged(self._frame("claims"))
        self.provenance = {name: store.read_provenance(path) for name, path in sorted(self.tables.items())}
        self.placed: set[str] = set()
        """Places of the page that hold a figure or a table: a figure and a table may have one name."""

    def report(self) -> dict[str, Any]:
        """Return the variables of the template report.html.j2 by name, such as claims with figures and tables."""
        cited = [sections.source_of(each.claim.source) for each in self.claims.values()]
        views = vectors.views(self._frame("majority_vectors") if "majority_vectors" in self.tables else None)
        return {
            "title": TITLE,
            "name": self.name,
            "command": sections.command("", self.options),
            "device": ", ".join(sections.devices(self.provenance)),
            "commits": sections.values(self.provenance, "git_commit"),
            "views": views,
            "vectors": {**vectors.BOX, "views": views},
            "too_small": self.too_small,
            "overview": list(self._figures([OF_VERDICTS])),
            "tally": self._tally(),
            "any_kept": any(each.kept for each in self.claims.values()),
            "sources": [source for source in sections.TEXTS["sources"] if source in cited],
            "meanings": {str(verdict): meaning for verdict, meaning in MEANINGS.items()},
            "terms": sections.TEXTS["terms"],
            "units": sections.TEXTS["units"],
            "parts": [self._part(part) for part in sections.TEXTS["parts"]],
            "provenance": [sections.provenance(self.provenance)],
            "configs": sections.configurations(self.provenance),
        }

    def findings(self) -> dict[str, Any]:
        """Return the variables of the template findings.html.j2 by name: sections, pictures, effects and others."""
        decided, open_ = findings.sections(self.claims)
        pictures = {}
        for section in decided:
            # A figure that two sections name stands in the first.
            wanted = [name for name in section.get("figures", []) if name in self.pictures]
            section["figures"] = [name for name in wanted if name not in pictures]
            pictures |= {name: self._picture(name) for name in section["figures"]}
        return {
            "title": TITLE,
            "name": self.name,
            "commits": sections.values({"claims": self.provenance["claims"]}, "git_commit"),
            "too_small": self.too_small,
            "text": findings.TEXT,
            "sections": decided,
            "undecided": open_,
            "by_kept_run": findings.by_kept_run(self.claims),
            "effects": findings.effects(self.claims),
            "pictures": pictures,
        }

    def _tally(self) -> list[tuple[str, int]]:
        counts = Counter(each.row.verdict for each in self.claims.values())
        return [] if self.too_small else [(str(word), counts[word]) for word in MEANINGS if counts[word]]

    def _part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part of report.yaml with its claims in groups, and figures of its subject that no claim shows."""
        claims = [each.claim for each in self.claims.values()]
        groups = sections.groups(claim for claim in claims if claim.part == part["name"])
        # A claim that repeats one is folded, so a figure of both stands with the first: firsts are made before.
        firsts = [self._claim(first) for first, *_ in groups]
        again = [[self._claim(claim) for claim in others] for _, *others in groups]
        used = {name for claim in claims for name in claim.figures}
        of_part = [name for name in self.pictures if shown.FIGURES[name].group in part["shows"]]
        return {
            **part,
            "groups": [{"first": first, "again": rest} for first, rest in zip(firsts, again, strict=True)],
            "figures": [*self._figures(name for name in of_part if name not in used)],
        }

    def _claim(self, claim: Claim) -> dict[str, Any]:
        own, row = self.claims[claim.name], self.claims[claim.name].row
        kind = "matrices" if claim.target == "random_keys" else "runs"
        compared = rows_of(self._frame("comparisons"), claim.name) if "comparisons" in self.tables else []
        return {
            **row,
            "name": claim.name,
            "words": claim.name.replace("_", " "),
            "again": claim.source.rpartition("; ")[2],
            "verdict": "" if self.too_small else row.verdict,
            "word": own.word,
            "kept": own.kept,
            "from": sections.source_of(claim.source),
            "paper_value": typeset(row.paper_value),
            "measured": number(row.measured),
            "interval": interval(row.ci_low, row.ci_high),
            "control_measured": number(row.control_measured),
            "control_interval": interval(row.control_low, row.control_high),
            "control_name": row.control.partition(";")[0],
            "unit": typeset(claim.unit),
            "size": own.size,
            "effect": "" if pd.isna(row.effect) else str(float(row.effect)).replace("inf", "Infinity"),
            "also_passed_by": typeset(row.also_passed_by),
            "runs": f"{row.n_seeds:,} {kind}" if row.n_seeds > 1 else "nothing is random",
            "rule": claim.rule,
            "p_holm": "" if pd.isna(row.p_holm) else f"{row.p_holm:.2g}",
            "comparisons": compared,
            "figures": list(self._figures(claim.figures)),
            "tables": list(self._tables(claim.shown)),
            "command": sections.command(claim.target, self.options),
        }

    def _figures(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            if name in self.pictures and not (self.too_small and name == OF_VERDICTS):
                yield {"name": name} if name in self.placed else self._picture(name)
                self.placed.add(name)

    def _tables(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            table = shown.TABLES[name]
            if f"table-{name}" in self.placed:
                yield {"name": name, "title": table.title}
            elif self.tables.keys() >= {*table.inputs}:
                self.placed.add(f"table-{name}")
                parts = readable.make(table, {name: self._frame(name) for name in table.inputs}).parts
                yield {
                    "name": name,
                    "title": table.title,
                    "parts": parts,
                    "folded": sum(len(part) for part in parts if isinstance(part, pd.DataFrame)) > FOLDED,
                    "files": [f"tables/{name}.csv", *(f"parquet/{each}.parquet" for each in table.inputs)],
                }

    def _picture(self, name: str) -> dict[str, Any]:
        """Return a figure's caption and size, and where its picture and other files lie beside the page."""
        figure = shown.FIGURES[name]
        return {
            "name": name,
            "caption": typeset(figure.caption),
            "files": [f"figures/{name}.pdf", *(f"parquet/{table}.parquet" for table in figure.inputs)],
            "source": f"figures/{name}.png",
            **_size(files.read_bytes(self.pictures[name])),
        }


def _size(png: bytes) -> dict[str, Any]:
    """Return the width and height in pixels of the screen of the content of a PNG file, and whether it is wide."""
    width, height = struct.unpack(">II", png[16:24])
    # Figures are drawn for paper at 220 pixels an inch; a screen has 96, and shows them a little larger.
    scale = 96 / 220 * 1.2
    return {"width": round(width * scale), "height": round(height * scale), "wide": width * scale > 500}
