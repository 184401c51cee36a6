"""The findings: every number on the page is one of table claims, and what a run does not decide is no headline."""

import re
from pathlib import Path

import numpy as np
import pytest
from kept import KEPT, TABLES
from tiny_world import claims, comparisons

from layernorm_roles import shown, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.page import findings
from layernorm_roles.evidence.tables.verdicts import judged

PLACE = re.compile(r"\{(\w+)(\.control|\.value|\.control_value)?\}")
COLUMNS = {
    None: ["measured", "ci_low", "ci_high"],
    ".value": ["measured"],
    ".control_value": ["control_measured"],
    ".control": ["control_measured", "control_low", "control_high"],
}
NUMBER = r"(?<![\w.(])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)"
SECTIONS = findings.TEXT["sections"]
ENTRIES = [sentence for section in SECTIONS for sentence in section["sentences"]]


def text(entry):
    return entry if isinstance(entry, str) else entry["text"]


def first_headlines():
    """The verdict of each section's claim that its first headline is for."""
    return {section["claim"]: next(iter(section["headlines"])) for section in SECTIONS}


def conditions():
    entries = [entry for entry in (*ENTRIES, *findings.TEXT["found"]) if not isinstance(entry, str)]
    return {name: words[0] for entry in entries for name, words in entry["when"].items()}


def table(**verdicts):
    """A table of claims in which no two numbers are alike."""
    frame = claims().set_index("claim", drop=False)
    frame["n_seeds"] = 7
    random = np.random.default_rng(0)
    for columns in (COLUMNS[None], COLUMNS[".control"]):
        means, halves = random.uniform(1, 9, len(frame)), random.uniform(0.04, 0.09, len(frame))
        frame[columns] = np.stack([means, means - halves, means + halves], axis=1).round(2)
    for claim, verdict in verdicts.items():
        frame.loc[claim, "verdict"] = verdict
    return frame.reset_index(drop=True)


WORLDS = [{}, {"faster": "holds", "size_or_projection": "does not hold"}]
"""Verdicts with which, between them, each sentence is true in a world at least."""


def true_entries(entries, verdicts):
    """The entries of findings.yaml that are true with such verdicts."""
    asked = ((entry, {} if isinstance(entry, str) else entry["when"]) for entry in entries)
    return [entry for entry, when in asked if all(verdicts[name] in words for name, words in when.items())]


def test_every_sentence_is_true_in_a_world():
    worlds = [conditions() | first_headlines() | world for world in WORLDS]
    for entries in (ENTRIES, findings.TEXT["found"]):
        found = {text(entry) for world in worlds for entry in true_entries(entries, world)}
        assert found == {*map(text, entries)}


@pytest.mark.parametrize("world", WORLDS)
def test_every_number_is_the_claims(world):
    verdicts = conditions() | first_headlines() | world
    frame = table(**verdicts)
    decided, open_ = findings.sections(judged(frame))
    assert not open_
    rows = frame.set_index("claim")
    found = findings.found(judged(frame))
    printed = [sentence for part in decided for sentence in part["sentences"]] + found
    numbers = [
        float(found.replace(",", "")) for found in re.findall(NUMBER, " ".join(printed).replace("(", ""))
    ]
    entries = [*true_entries(ENTRIES, verdicts), *true_entries(findings.TEXT["found"], verdicts)]
    wanted = []
    for token in re.finditer(r"\{[\w.]+\}|" + NUMBER, " ".join(map(text, entries)).replace("(", "")):
        place = PLACE.fullmatch(token[0])
        wanted += rows.loc[place[1], COLUMNS[place[2]]].to_list() if place else [float(token[0])]
    assert numbers == pytest.approx(wanted, abs=1e-9) and len(wanted) > 30
    assert sum(len(sentence.split()) for sentence in found) <= 130


@pytest.mark.parametrize("lost", [[*COLUMNS[None], *COLUMNS[".control"]], ["verdict"]])
def test_what_was_not_measured_or_not_decided_is_named_and_no_headline(lost):
    frame = table(**first_headlines())
    open_verdict = "holds" if len(lost) > 1 else "inconclusive"
    frame.loc[frame.claim == "project_values", lost] = "inconclusive" if lost == ["verdict"] else np.nan
    decided, open_ = findings.sections(judged(frame))
    assert (
        open_ == {open_verdict: ["where the projection costs accuracy"]} and len(decided) == len(SECTIONS) - 1
    )
    assert findings.sections({}) == ([], {"not run here": [section["title"] for section in SECTIONS]})
    assert findings.found({}) == [], "nor is what no claim bears out"
    frame.loc[frame.claim == "loss_gap", "verdict"] = "inconclusive"
    sentences = [each for part in findings.sections(judged(frame))[0] for each in part["sentences"]]
    (marked,) = (each for each in sentences if each.startswith("In a model of width 8"))
    assert "] (inconclusive) at the" in marked


def test_every_verdict_that_decides_has_a_headline():
    frame = table()
    decisive = {"holds", "partial", "does not hold"}
    for section in SECTIONS:
        assert decisive <= {*section["headlines"]} <= {*map(str, Verdict)}, section["claim"]
        kind = next(claim.kind for claim in CLAIMS if claim.name == section["claim"])
        assert ("confounded" in section["headlines"]) == (kind == "paper"), section["claim"]
        assert {*section.get("figures", [])} <= {*shown.FIGURES}
        for verdict, headline in section["headlines"].items():
            found = findings.sections(judged(frame.assign(verdict=verdict)))[0]
            assert headline in [part["headline"].replace("’", "'") for part in found]


def test_the_findings_replace_what_stands_between_their_markers_in_the_readme(tmp_path):
    readme = tmp_path / "README.md"
    for name, frame in (("claims", table(**conditions())), ("comparisons", comparisons())):
        store.write(frame, name, tmp_path / f"parquet/{name}.parquet", {})
    readme.write_text(f"ü\n{findings.BEGIN}\nold\n{findings.END}\nmore\n", encoding="utf-8")
    findings.update_readme(readme, tmp_path)
    made = readme.read_text(encoding="utf-8")
    assert made.startswith(f"ü\n{findings.BEGIN}\n- ") and made.endswith(f"|\n{findings.END}\nmore\n")
    lines = made.splitlines()
    assert (
        sum(line.startswith("- ") for line in lines) == 3
        and sum(line.startswith("| ") for line in lines) == 12
    )
    assert f"]({tmp_path}/findings.md#faster)" in made and "old" not in made
    for lacking in ("# Title\n", f"{findings.BEGIN}\n", f"{findings.END}\n"):
        readme.write_text(lacking, encoding="utf-8")
        with pytest.raises(ValueError, match="expected the lines"):
            findings.update_readme(readme, tmp_path)


def test_the_readme_is_up_to_date(tmp_path, monkeypatch):
    """If this fails: snakemake --cores 1 readme"""
    assert not TABLES["claims"].empty
    monkeypatch.chdir(KEPT.parents[1])
    again = tmp_path / "README.md"
    again.write_bytes(Path("README.md").read_bytes())
    findings.update_readme(again, "results/published")
    assert again.read_bytes() == Path("README.md").read_bytes()
