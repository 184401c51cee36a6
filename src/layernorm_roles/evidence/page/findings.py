"""findings.html: what a reproduction found, as a paper of three pages; every number comes from its table of claims.

findings.yaml beside this file has the text. What a run lacks is left out, and what it does not decide is said, so that
the page is true of every reproduction.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from layernorm_roles.evidence.tables.typography import typeset
from layernorm_roles.evidence.tables.verdicts import Judged

TEXT = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))
"""The text of the findings, as findings.yaml has it."""

_NUMBER = re.compile(r"\{(\w+)(\.control|\.p)?\}")


class Section(NamedTuple):
    """One finding."""

    title: str
    headline: str
    """What the verdict on `claim` says, as a sentence."""
    claim: str
    """The name of the claim that the headline is about."""
    verdict: str
    """Its verdict; empty if the reproduction has no such claim."""
    sentences: list[str]
    figure: str | None
    """Name of the figure that shows it."""


def sections(claims: Mapping[str, Judged]) -> list[Section]:
    """The findings of a reproduction, from its judged claims by name."""
    found = []
    for entry in TEXT["sections"]:
        name, headlines = entry["claim"], entry["headlines"]
        verdict = claims[name].row.verdict if name in claims else ""
        headline = typeset(headlines.get(verdict, headlines["else"]))
        sentences = [*_sentences(entry["sentences"], claims)]
        found.append(Section(entry["title"], headline, name, verdict, sentences, entry.get("figure")))
    return found


def prose() -> dict[str, str]:
    """The parts of the paper that are the same for every reproduction, by name."""
    parts = {name: TEXT[name] for name in ("question", "methods", "limits", "related")}
    return {name: typeset(part if isinstance(part, str) else " ".join(part)) for name, part in parts.items()}


def advice(claims: Mapping[str, Judged]) -> list[str]:
    """The sentences on what to do with the findings that the verdicts of a reproduction support."""
    return [*_sentences(TEXT["advice"], claims)]


def markdown(claims: Mapping[str, Judged]) -> str:
    """Each headline with the first of its sentences as a Markdown list, for the README."""
    return "".join(
        f"- **{section.headline}** {section.sentences[0]}\n"
        for section in sections(claims)
        if section.sentences
    )


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
    if name not in claims:
        return ""
    judged = claims[name]
    return {"": judged.measured, ".control": judged.control, ".p": judged.corrected}[part]
