"""The findings of a reproduction, for findings.html, findings.md and the README; every number comes from its tables.

The text is that of findings.yaml beside this file, whose first lines say how it is filled in.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from layernorm_roles import files, store
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.claims.scoreboard import scoreboard
from layernorm_roles.evidence.page.sections import environment
from layernorm_roles.evidence.tables.scoreboard import texts
from layernorm_roles.evidence.tables.typography import typeset
from layernorm_roles.evidence.tables.verdicts import Judged, judged
from layernorm_roles.shown import FIGURES

TEXT = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))
"""What findings.yaml has: headlines and sentences, with the claims and verdicts that they are for."""

BEGIN, END = "<!-- findings:begin -->", "<!-- findings:end -->"
"""The lines of README.md between which the findings of the kept reproduction stand."""

_PLACE = re.compile(r"\{(\w+)(?:\.(control|value|control_value))?\}")


def found(claims: Mapping[str, Judged]) -> list[str]:
    """Return the sentences on what was found that are true under the verdicts on `claims`."""
    return [*_sentences(TEXT["found"], claims)]


def sections(claims: Mapping[str, Judged]) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Return the sections of the findings, and the titles of those left out by the verdict that leaves them open.

    A section is an entry of findings.yaml with its claim's verdict, headline, and the sentences that are then true.
    """
    decided, open_ = [], {}
    for entry in TEXT["sections"]:
        verdict = claims[entry["claim"]].row.verdict if entry["claim"] in claims else str(Verdict.NOT_RUN)
        sentences = [*_sentences(entry["sentences"], claims)]
        if (headline := entry["headlines"].get(verdict)) and sentences:
            decided.append(
                entry | {"verdict": verdict, "headline": typeset(headline), "sentences": sentences}
            )
        else:
            open_.setdefault(verdict, []).append(entry["title"])
    return decided, open_


def exhibits(
    claims: pd.DataFrame, comparisons: pd.DataFrame, figures: Collection[str]
) -> list[dict[str, Any]]:
    """Return the rows of the scoreboard as texts, each with its claim and its `files`: pairs of a title and a path.

    Paths are of figures and tables, from the reproduction's folder, which has the `figures`; others are not linked.
    """
    rows = []
    for row in scoreboard(claims, comparisons).itertuples():
        names = [name for name in row.exhibits.split(", ") if name in figures or name not in FIGURES]
        paths = [f"figures/{name}.png" if name in FIGURES else f"tables/{name}.md" for name in names]
        titles = row.exhibit.split(", ")
        shown = {
            "claim": row.claim,
            "outcome": row.outcome,
            "files": [*zip_longest(titles, paths[: len(titles)])],
        }
        rows.append(texts(row) | shown)
    return rows


def update_readme(readme: str | Path, folder: str | Path) -> None:
    """Replace the text between the comments findings:begin and findings:end in `readme` by findings and scoreboard.

    They are those of the reproduction in `folder`, a path from the README. Raises ValueError if a comment is missing.
    """
    readme, folder = Path(readme), Path(folder)
    before, begins, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not (begins and ends):
        raise ValueError(f"README.md: expected the lines {BEGIN} and {END}")
    claims, compared = (
        store.read(folder / f"parquet/{name}.parquet", name) for name in ("claims", "comparisons")
    )
    rows = exhibits(claims, compared, {path.stem for path in folder.glob("figures/*.png")})
    made = environment().get_template("readme.md.j2")
    content = made.render(found=found(judged(claims)), rows=rows, folder=f"{folder.as_posix()}/")
    files.replace_text(readme, f"{before}{BEGIN}\n{content}{END}{after}")


def _sentences(entries: list[Any], claims: Mapping[str, Judged]) -> Iterator[str]:
    """Yield the sentences whose numbers were all measured and whose claims have the verdicts that they ask for."""
    for entry in entries:
        text, when = (entry, {}) if isinstance(entry, str) else (entry["text"], entry["when"])
        if all(name in claims and claims[name].row.verdict in verdicts for name, verdicts in when.items()):
            numbers = {place[0]: _number(claims.get(place[1]), place[2]) for place in _PLACE.finditer(text)}
            if all(numbers.values()):
                for place, number in numbers.items():
                    text = text.replace(place, number)
                yield typeset(text)


def _number(judged: Judged | None, part: str | None) -> str:
    """Return what a place in a sentence stands for, see findings.yaml; empty if the claim was not measured."""
    if judged is None:
        return ""
    whole = judged.control if part in ("control", "control_value") else judged.measured
    shown = whole.partition(" [")[0] if part in ("value", "control_value") else whole
    return shown and shown + " (inconclusive)" * (judged.row.verdict == Verdict.INCONCLUSIVE)
