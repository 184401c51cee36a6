"""The pages report.html, every claim with its evidence, and findings.html and findings.md, the results in short."""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_roles import files, shown, store
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.page import findings, sections, vectors
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.typography import typeset
from layernorm_roles.evidence.tables.verdicts import Judged, judged

TITLE = "What LayerNorm does for attention"
OF_VERDICTS = "claims_forest"
"""Name of the figure that shows verdicts, which stands below the tally."""
LONGEST = 12
"""Readable tables with more rows than this are linked from the report, not shown in it."""
KINDS = {"paper": "The paper’s claims", "rest": "Questions of ours and other documents"}
"""Heading of each of the two tallies, by its name in the address of the page."""

Inputs = Mapping[str, str | Path | Sequence[str | Path]]
"""Paths of the files that pages are made from, by their names."""


def write(
    plan: Mapping[str, Any],
    inputs: Inputs,
    out_report: str | Path,
    out_findings: str | Path,
    out_markdown: str | Path,
) -> None:
    """Write the pages of a reproduction: the report on all claims, and the findings as HTML and as Markdown.

    `plan` has the reproduction's `settings`, the names of its `tables` and `figures` that the pages may show, and
    `options`, the text that follows the target in snakemake commands on the pages. `inputs` has the path of each table
    by name, the tables claims and comparisons included, and under "figures" the paths of PNG files. The pages link to
    files in the folders figures/, tables/ and parquet/ beside them. Equal inputs give equal bytes.
    """
    evidence, templates = _Evidence(Path(out_report).parent.name, plan, inputs), sections.environment()
    findings_of = evidence.findings()
    for template, path, variables in (
        ("report.html.j2", out_report, evidence.report()),
        ("findings.html.j2", out_findings, findings_of),
        ("findings.md.j2", out_markdown, findings_of),
    ):
        files.write_text(path, templates.get_template(template).render(variables))


class _Evidence:
    """What the templates show of the reproduction called `name`; `write` says what `plan` and `inputs` have."""

    def __init__(self, name: str, plan: Mapping[str, Any], inputs: Inputs) -> None:
        self.name, self.options = name, plan["options"]
        self.tables = {table: Path(inputs[table]) for table in plan["tables"]}
        pictures = {path.stem: path for path in map(Path, inputs["figures"])}
        self.pictures = {figure: pictures[figure] for figure in plan["figures"]}
        self.too_small = sections.too_small(plan["settings"])
        self._frame = cache(lambda table: store.read(self.tables[table], table))
        self.judged = judged(self._frame("claims"))
        self.ran = {name: each for name, each in self.judged.items() if each.row.verdict != Verdict.NOT_RUN}
        self.provenance = {name: store.read_provenance(path) for name, path in sorted(self.tables.items())}
        self.placed: set[str] = set()
        """Places of the page that hold a figure or a table: a figure and a table may have one name."""

    def _common(self) -> dict[str, Any]:
        """Return the variables that all pages have."""
        frames = self._frame("claims"), self._frame("comparisons")
        return {
            "title": TITLE,
            "name": self.name,
            "text": findings.TEXT,
            "found": [] if self.too_small else findings.found(self.judged),
            "exhibits": [] if self.too_small else findings.exhibits(*frames, self.pictures),
            "not_run": [name for name in self.judged if name not in self.ran],
            "too_small": self.too_small,
            "commits": sections.values({"claims": self.provenance["claims"]}, "git_commit"),
        }

    def report(self) -> dict[str, Any]:
        """Return the variables of the template report.html.j2 by name, such as claims with figures and tables."""
        cited = [sections.source_of(each.claim.source) for each in self.ran.values()]
        views = vectors.views(self._frame("majority_vectors") if "majority_vectors" in self.tables else None)
        return self._common() | {
            "command": sections.command("", self.options),
            "device": ", ".join(sections.devices(self.provenance)),
            "views": views,
            "vectors": {**vectors.BOX, "views": views},
            "overview": list(self._figures([OF_VERDICTS])),
            "tallies": self._tallies(),
            "sources": [source for source in sections.TEXTS["sources"] if source in cited],
            "meanings": {str(verdict): meaning for verdict, meaning in MEANINGS.items()},
            "texts": sections.TEXTS,
            "parts": [self._part(part) for part in sections.TEXTS["parts"]],
            "provenance": [sections.provenance(self.provenance)],
        }

    def findings(self) -> dict[str, Any]:
        """Return the variables of the templates of the findings by name: sections, pictures, the claims and others."""
        decided, open_ = findings.sections(self.judged)
        pictures = {}
        for section in decided:
            # A figure that two sections name stands in the first.
            wanted = [name for name in section.get("figures", []) if name in self.pictures]
            section["figures"] = [name for name in wanted if name not in pictures]
            pictures |= {name: self._picture(name) for name in section["figures"]}
        claims = [self._brief(each) for each in self.ran.values()]
        return self._common() | {"sections": decided, "open": open_, "pictures": pictures, "claims": claims}

    def _tallies(self) -> list[tuple[str, str, list[tuple[str, int]]]]:
        """Return the name, the heading and the counts by verdict of the paper's claims and of the others."""
        counts = {kind: Counter() for kind in KINDS}
        for each in self.ran.values():
            counts[_kind(each)][each.row.verdict] += not self.too_small
        words = [*map(str, MEANINGS)]
        return [(k, KINDS[k], [(word, of[word]) for word in words if of[word]]) for k, of in counts.items()]

    def _part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part of report.yaml with its claims, and figures of its subject that no claim shows."""
        own = [each for each in self.ran.values() if each.claim.part == part["name"]]
        used = {name for each in own for name in each.claim.figures}
        of_part = [name for name in self.pictures if shown.FIGURES[name].group in part["shows"]]
        made = {"claims": [self._claim(each) for each in own]}
        return {**part, **made, "figures": [*self._figures(name for name in of_part if name not in used)]}

    def _brief(self, own: Judged) -> dict[str, Any]:
        """Return what the table of claims shows of a claim, as texts."""
        row, claim = own.row, own.claim
        kind = "matrices" if claim.target == "random_keys" else "runs"
        return {
            **row,
            "name": claim.name,
            "words": claim.name.replace("_", " "),
            "kind": _kind(own),
            "verdict": "" if self.too_small else row.verdict,
            "from": sections.source_of(claim.source),
            "paper_value": typeset(row.paper_value),
            "measured": own.measured,
            "control_measured": own.control,
            "control_name": row.control.partition(";")[0],
            "size": own.size,
            "also_passed_by": typeset(row.also_passed_by),
            "runs": f"{row.n_seeds:,} {kind}" if row.n_seeds > 1 else "nothing is random",
        }

    def _claim(self, own: Judged) -> dict[str, Any]:
        claim, row = own.claim, own.row
        return self._brief(own) | {
            "rule": claim.rule,
            "unit": typeset(claim.unit.strip()),
            "p_holm": "" if pd.isna(row.p_holm) else f"{row.p_holm:.2g}",
            "comparisons": sections.compared(self._frame("comparisons"), claim.name),
            "figures": list(self._figures(claim.figures)),
            "tables": list(self._tables(claim.exhibits)),
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
                yield {"name": name, "title": table.title, "parts": []}
            elif self.tables.keys() >= {*table.inputs}:
                parts = readable.make(table, {name: self._frame(name) for name in table.inputs}).parts
                if long := sum(len(part) for part in parts if isinstance(part, pd.DataFrame)) > LONGEST:
                    parts = []
                else:
                    self.placed.add(f"table-{name}")
                inputs = [f"parquet/{each}.parquet" for each in table.inputs]
                listed = [f"tables/{name}.md"] * long + [f"tables/{name}.csv", *inputs]
                yield {"name": name, "title": table.title, "parts": parts, "files": listed}

    def _picture(self, name: str) -> dict[str, Any]:
        """Return a figure's caption and size, and where its picture and other files lie beside the page."""
        figure = shown.FIGURES[name]
        module, _, function = figure.draw.partition(".")
        caption = typeset(figure.caption)
        return {
            "name": name,
            "caption": caption,
            "alt": _alt(caption),
            "files": [f"figures/{name}.pdf", *(f"parquet/{table}.parquet" for table in figure.inputs)],
            "code": f"../../src/layernorm_roles/evidence/figures/{module}.py",
            "function": function,
            "source": f"figures/{name}.png",
            **_size(files.read_bytes(self.pictures[name])),
        }


def _kind(judged: Judged) -> str:
    return "paper" if judged.row.kind == "paper" else "rest"


def _alt(caption: str) -> str:
    """Return the first sentence of a figure's caption, or the first two if that is short."""
    first, _, rest = caption.partition(". ")
    return first if len(first) > 40 or not rest else f"{first}. {rest.partition('. ')[0]}"


def _size(png: bytes) -> dict[str, Any]:
    """Return the width and height in pixels of the screen of the content of a PNG file, and whether it is wide."""
    width, height = struct.unpack(">II", png[16:24])
    # Figures are drawn for paper at 220 pixels an inch; a screen has 96, and shows them a little larger.
    scale = 96 / 220 * 1.2
    return {"width": round(width * scale), "height": round(height * scale), "wide": width * scale > 500}
