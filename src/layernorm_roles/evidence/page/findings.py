"""findings.html: what a reproduction found, on two printed pages; every number comes from its table of claims.

findings.yaml beside this file has the text. A section whose claim has no verdict for which there is a headline is left
out, and named among what stays undecided, so that the page is true of every reproduction.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from layernorm_roles.evidence.tables.readable import grid
from layernorm_roles.evidence.tables.typography import MISSING, typeset, with_unit
from layernorm_roles.evidence.tables.verdicts import Judged

TEXT = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))
"""Headlines, sentences and effects of findings.html with the claims and verdicts that they are for: findings.yaml."""

FIGURES = tuple(section["figure"] for section in TEXT["sections"] if "figure" in section)
"""Names of the figures on the page findings.html."""

_NUMBER = re.compile(r"\{(\w+)(\.control|\.value|\.p)?\}")


def sections(claims: Mapping[str, Judged]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the sections of findings.html, from the judged claims by name, and the titles of what stays undecided.

    A section is its entry in findings.yaml with the verdict on its claim, the headline for that verdict, and the
    sentences that are true of it. What a reproduction leaves open and the kept one decides is in `by_kept_run` alone.
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
    """What the kept reproduction found of claims that this one leaves open: headline, claim and kept verdict."""
    kept = [(entry, claims[entry["claim"]].kept) for entry in TEXT["sections"] if entry["claim"] in claims]
    return [
        (entry["headlines"][judged.row.verdict], entry["claim"], judged)
        for entry, judged in kept
        if judged and judged.row.verdict in entry["headlines"]
    ]


def effects(claims: Mapping[str, Judged]) -> pd.DataFrame:
    """Return main effects as a table of texts: the paper's comparison, the isolating one, that at best rates, verdict.

    The effects are those of findings.yaml. Of what was not run, the kept reproduction's numbers stand there, marked.
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
        "paper's comparison": lambda entry: measured(entry["claim"]),
        "isolating comparison": lambda entry: claims[entry["claim"]].control or MISSING,
        "at best rates": lambda entry: measured(entry.get("best")),
        "verdict": lambda entry: verdict(claims[entry["claim"]]),
    }
    return grid(entries, cells, texts=5)


def markdown(claims: Mapping[str, Judged]) -> str:
    """Return the README's findings as a Markdown list: the sentences that the verdicts on their claims make true."""
    return "".join(f"- {sentence}\n" for sentence in _sentences(TEXT["readme"], claims))


def _sentences(entries: list[Any], claims: Mapping[str, Judged]) -> Iterator[str]:
    """The sentences whose numbers were all measured and whose verdicts are those that they are for."""
    for entry in entries:
        text, when = (entry, {}) if isinstance(entry, str) else (entry["text"], entry["when"])
        if all(name in claims and claims[name].row.verdict in verdicts for name, verdicts in when.items()):
            numbers = {f"{name}{part}": _number(claims, name, part) for name, part in _NUMBER.findall(text)}
            if all(numbers.values()):
                for name, number in numbers.items():
                    text = text.replace(f"{{{name}}}", number)
                yield typeset(text)


def _number(claims: Mapping[str, Judged], name: str, part: str) -> str:
    """What {name} stands for, see findings.yaml; empty if the claim is not there or was not measured."""
    if name not in claims:
        return ""
    judged = claims[name]
    value = with_unit(judged.row.measured, judged.claim.unit)
    return {"": judged.measured, ".control": judged.control, ".value": value, ".p": judged.corrected}[part]
