"""What a reproduction found, in findings.html and in the README; every number comes from its table of claims.

The text is that of findings.yaml beside this file. A section is left out, and named as undecided, if the verdict on its
claim has no headline, so that the page is true of every reproduction.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from layernorm_roles import files, store
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.tables.readable import grid
from layernorm_roles.evidence.tables.typography import MISSING, typeset, with_unit
from layernorm_roles.evidence.tables.verdicts import Judged, judged

TEXT = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))
"""What findings.yaml has: headlines, sentences and effects, with the claims and verdicts that they are for."""

BEGIN, END = "<!-- findings:begin -->", "<!-- findings:end -->"
"""The lines of README.md between which the findings of the kept reproduction stand."""

_PLACE = re.compile(r"\{(\w+)(?:\.(control|value|control_value))?\}")


def sections(claims: Mapping[str, Judged]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the sections of the page findings.html, and the titles of those that are left out as undecided.

    `claims` has the judged claims by name. A section is an entry of findings.yaml with the verdict on its claim, the
    headline for that verdict, and the sentences that are true under the verdicts. Without a headline or sentences it is
    left out; its title is given unless `by_kept_run` returns its claim.
    """
    decided, undecided, elsewhere = [], [], {claim for _, claim, _ in by_kept_run(claims)}
    for entry in TEXT["sections"]:
        verdict = claims[entry["claim"]].row.verdict if entry["claim"] in claims else ""
        sentences = [*_sentences(entry["sentences"], claims)]
        if (headline := entry["headlines"].get(verdict)) and sentences:
            decided.append(entry | {"verdict": verdict, "headline": headline, "sentences": sentences})
        elif entry["claim"] not in elsewhere:
            undecided.append(entry["title"])
    return decided, undecided


def by_kept_run(claims: Mapping[str, Judged]) -> list[tuple[str, str, Judged]]:
    """Return what the kept reproduction found on claims of findings.html that are "not tested" in this reproduction.

    Each item is a tuple: a headline, the claim's name, and the claim as the kept reproduction judged it.
    """
    found = []
    for headlines, claim in ((entry["headlines"], entry["claim"]) for entry in TEXT["sections"]):
        kept = claims[claim].kept if claim in claims else None
        if kept and kept.row.verdict in headlines:
            found.append((headlines[kept.row.verdict], claim, kept))
    return found


def effects(claims: Mapping[str, Judged]) -> pd.DataFrame:
    """Return the table of effects in findings.html, as texts: each effect is a row of three numbers and a verdict.

    The numbers are the claim's own, that of its control, and that at best learning rates. A number that only the kept
    reproduction has is marked "kept run".
    """

    def measured(claim: str | None) -> str:
        if claim not in claims:
            return MISSING
        kept = claims[claim].kept
        return claims[claim].measured or (f"kept run: {kept.measured}" if kept else MISSING)

    def verdict(judged: Judged) -> str:
        return f"{judged.word}; kept run: {judged.kept.row.verdict}" if judged.kept else judged.word

    entries = [entry for entry in TEXT["effects"] if entry["claim"] in claims]
    cells = {
        "effect": "{0[effect]}",
        "measured": lambda entry: measured(entry["claim"]),
        "its control": lambda entry: claims[entry["claim"]].control or MISSING,
        "at best rates": lambda entry: measured(entry.get("best")),
        "verdict": lambda entry: verdict(claims[entry["claim"]]),
    }
    return grid(entries, cells, texts=5)


def markdown(claims: Mapping[str, Judged]) -> str:
    """Return the findings for the README as a Markdown list of the sentences that are true under the verdicts.

    `claims` has the judged claims by name. A sentence is left out if a number in it was not measured.
    """
    return "".join(f"- {sentence}\n" for sentence in _sentences(TEXT["readme"], claims))


def update_readme(readme: str | Path, claims: str | Path) -> None:
    """Replace the text between the comments findings:begin and findings:end in the file `readme` by the findings.

    `claims` is the Parquet file of a reproduction's table claims. Raises ValueError if one of the comments is missing.
    """
    readme = Path(readme)
    before, begins, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not (begins and ends):
        raise ValueError(f"README.md: expected the lines {BEGIN} and {END}")
    content = markdown(judged(store.read(claims, "claims")))
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
    row, unit = judged.row, judged.claim.unit
    values = {"value": with_unit(row.measured, unit), "control_value": with_unit(row.control_measured, unit)}
    number = {None: judged.measured, "control": judged.control, **values}[part]
    return number and number + " (undecided)" * (row.verdict == Verdict.NOT_TESTED)
