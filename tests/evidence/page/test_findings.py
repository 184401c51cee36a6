"""The findings: every number on the page is one of table claims, and what a run does not decide is no headline."""

import re
from pathlib import Path

import numpy as np
import pytest
from kept import KEPT, TABLES
from tiny_world import claims

from layernorm_roles import shown, store
from layernorm_roles.evidence.claims.rules import OUR_WORDS, Verdict
from layernorm_roles.evidence.page import findings
from layernorm_roles.evidence.tables.verdicts import judged

PLACE = re.compile(r"\{(\w+)(\.control|\.value|\.control_value)?\}")
COLUMNS = {
    None: ["measured", "ci_low", "ci_high"],
    ".value": ["measured"],
    ".control_value": ["control_measured"],
    ".control": ["control_measured", "control_low", "control_high"],
}
NUMBER = r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)"
SECTIONS = findings.TEXT["sections"]
ENTRIES = [sentence for section in SECTIONS for sentence in section["sentences"]]


def text(entry):
    return entry if isinstance(entry, str) else entry["text"]


def first_headlines():
    """The verdict of each section's claim that its first headline is for."""
    return {section["claim"]: next(iter(section["headlines"])) for section in SECTIONS}


def conditions():
    entries = [entry for entry in (*ENTRIES, *findings.TEXT["readme"]) if not isinstance(entry, str)]
    return {name: words[0] for entry in entries for name, words in entry["when"].items()}


def table(**verdicts):
    """A table of claims in which no two numbers are alike."""
    frame = claims().set_index("claim", drop=False)
    random = np.random.default_rng(0)
    columns = COLUMNS[None] + COLUMNS[".control"]
    frame[columns] = random.uniform(0.01, 90, (len(frame), len(columns)))
    for claim, verdict in verdicts.items():
        frame.loc[claim, "verdict"] = verdict
    return frame.reset_index(drop=True)


WORLDS = [{}, {"attention_needs_size": "partial", "loss_gap": "confounded", "heads": "partial"}]
"""Verdicts with which, between them, each sentence is true in a world at least."""


def true_entries(entries, verdicts):
    """The entries of findings.yaml that are true with such verdicts."""
    asked = ((entry, {} if isinstance(entry, str) else entry["when"]) for entry in entries)
    return [entry for entry, when in asked if all(verdicts[name] in words for name, words in when.items())]


def test_every_sentence_is_true_in_a_world():
    worlds = [conditions() | first_headlines() | world for world in WORLDS]
    for entries in (ENTRIES, findings.TEXT["readme"]):
        found = {text(entry) for world in worlds for entry in true_entries(entries, world)}
        assert found == {*map(text, entries)}


@pytest.mark.parametrize("world", WORLDS)
def test_every_number_is_the_claims_to_three_digits(world):
    verdicts = conditions() | first_headlines() | world
    frame = table(**verdicts)
    decided, undecided = findings.sections(judged(frame))
    assert not undecided
    rows = frame.set_index("claim")
    lines = findings.markdown(judged(frame)).splitlines()
    printed = [sentence for part in decided for sentence in part["sentences"]] + lines
    numbers = [float(found.replace(",", "")) for found in re.findall(NUMBER, " ".join(printed))]
    entries = [*true_entries(ENTRIES, verdicts), *true_entries(findings.TEXT["readme"], verdicts)]
    wanted = []
    for token in re.finditer(r"\{[\w.]+\}|" + NUMBER, " ".join(map(text, entries))):
        place = PLACE.fullmatch(token[0])
        wanted += rows.loc[place[1], COLUMNS[place[2]]].to_list() if place else [float(token[0])]
    assert numbers == pytest.approx(wanted, rel=6e-3) and len(wanted) > 40
    assert len(lines) in (4, 5) and sum(len(line.split()) - 1 for line in lines) <= 120


@pytest.mark.parametrize("lost", [[*COLUMNS[None], *COLUMNS[".control"]], ["verdict"]])
def test_what_was_not_measured_or_not_decided_is_named_and_no_headline(lost):
    frame = table(**first_headlines())
    frame.loc[frame.claim == "project_values", lost] = "not tested" if lost == ["verdict"] else np.nan
    decided, undecided = findings.sections(judged(frame))
    frame.loc[frame.claim.isin(["faster_best_rate", "table_1_paper_rate"]), "verdict"] = "not tested"
    frame.loc[frame.claim == "table_1_paper_rate", COLUMNS[None]] = np.nan
    decided, _ = findings.sections(judged(frame))
    (marked,) = (each for part in decided for each in part["sentences"] if "(undecided)" in each)
    assert "released variant needs" in marked and marked.endswith("] (undecided).")
    assert undecided == ["where the projection costs accuracy"] and len(decided) == len(SECTIONS) - 1
    assert findings.sections({}) == ([], [section["title"] for section in SECTIONS])
    assert findings.markdown({}) == "", "nor is what no claim bears out"


def test_every_verdict_that_decides_has_a_headline():
    frame = table()
    paper = {*Verdict} - {Verdict.NOT_TESTED, *OUR_WORDS.values()} | {Verdict.PARTIAL}
    ours = {Verdict.HOLDS, Verdict.PARTIAL, Verdict.DOES_NOT_HOLD}
    for section in SECTIONS:
        assert {*section["headlines"]} in (paper, ours, ours | {Verdict.CONFOUNDED}), section["claim"]
        assert {*section.get("figures", [])} <= {*shown.FIGURES}
        for verdict, headline in section["headlines"].items():
            found = findings.sections(judged(frame.assign(verdict=verdict)))[0]
            assert headline in [part["headline"].replace("’", "'") for part in found]


def test_the_effects_are_a_table_with_the_number_at_best_rates():
    frame, grid = table().set_index("claim"), findings.effects(judged(table()))
    numbers = {"measured": "measured", "its control": "control_measured", "at best rates": "measured"}
    for row, entry in zip(grid.to_dict("records"), findings.TEXT["effects"], strict=True):
        assert (row["effect"], row["verdict"]) == (entry["effect"], frame.verdict[entry["claim"]])
        for cell, column in numbers.items():
            claim = entry.get("best") if cell == "at best rates" else entry["claim"]
            found = [float(each) for each in re.findall(NUMBER, row[cell])[:1]]
            assert found == pytest.approx(frame.loc[[claim], column] if claim else [], rel=6e-3)


def test_the_findings_replace_what_stands_between_their_markers_in_the_readme(tmp_path):
    readme, path = tmp_path / "README.md", tmp_path / "claims.parquet"
    store.write(table(**conditions()), "claims", path, {})
    readme.write_text(f"ü\n{findings.BEGIN}\nold\n{findings.END}\nmore\n", encoding="utf-8")
    findings.update_readme(readme, path)
    listed = findings.markdown(judged(store.read(path, "claims")))
    made = f"ü\n{findings.BEGIN}\n{listed}{findings.END}\nmore\n"
    assert readme.read_text(encoding="utf-8") == made and len(listed.splitlines()) == 6
    for lacking in ("# Title\n", f"{findings.BEGIN}\n", f"{findings.END}\n"):
        readme.write_text(lacking, encoding="utf-8")
        with pytest.raises(ValueError, match="expected the lines"):
            findings.update_readme(readme, path)


def test_the_readme_is_up_to_date(tmp_path):
    """If this fails: snakemake --cores 1 readme"""
    assert not TABLES["claims"].empty
    shown, again = Path(__file__).parents[3] / "README.md", tmp_path / "README.md"
    again.write_bytes(shown.read_bytes())
    findings.update_readme(again, KEPT / "parquet/claims.parquet")
    assert again.read_bytes() == shown.read_bytes()
