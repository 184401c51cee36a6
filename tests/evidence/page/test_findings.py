"""The findings: every number on the page is one of table claims, and what a run lacks or does not decide is said."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiny_world import claims

from layernorm_roles import planning
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.figures import registry
from layernorm_roles.evidence.page import findings
from layernorm_roles.evidence.tables.verdicts import judged

ROOT = Path(__file__).parents[3]
PLACE = re.compile(r"\{(\w+)(\.control|\.p)?\}")
COLUMNS = {
    None: ["measured", "ci_low", "ci_high"],
    ".control": ["control_measured", "control_low", "control_high"],
    ".p": ["p_holm"],
}
NUMBER = r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)"
SENTENCES = [
    sentence if isinstance(sentence, str) else sentence["text"]
    for section in findings.TEXT["sections"]
    for sentence in section["sentences"]
]


def table(**verdicts):
    """A table of claims in which no two numbers are alike."""
    frame = claims().set_index("claim", drop=False)
    random = np.random.default_rng(0)
    columns = COLUMNS[None] + COLUMNS[".control"]
    frame[columns] = random.uniform(0.01, 90, (len(frame), len(columns)))
    frame["p_holm"] = np.arange(1, len(frame) + 1) / 100
    for claim, verdict in verdicts.items():
        frame.loc[claim, "verdict"] = verdict
    return frame.reset_index(drop=True)


def by_name(frame):
    return {each.claim.name: each for each in judged(frame)}


def test_every_number_is_the_claims_to_three_digits():
    frame = table(attention_learnt=Verdict.HOLDS)  # its sentence is for runs that know it
    shown = " ".join(sentence for part in findings.sections(by_name(frame)) for sentence in part.sentences)
    rows = frame.set_index("claim")
    numbers = [float(found.replace(",", "")) for found in re.findall(NUMBER, shown)]
    wanted = []
    for token in re.finditer(r"\{[\w.]+\}|" + NUMBER, " ".join(SENTENCES)):
        place = PLACE.fullmatch(token[0])
        wanted += rows.loc[place[1], COLUMNS[place[2]]].to_list() if place else [float(token[0])]
    assert numbers == pytest.approx(wanted, rel=6e-3) and len(wanted) > 60


def test_a_sentence_without_its_number_is_left_out_and_a_section_without_sentences_is_said():
    frame = table()
    lost = frame.claim == "project_values"
    frame.loc[lost, ["measured", "ci_low", "ci_high"]] = np.nan
    whole, less = (findings.sections(by_name(each)) for each in (table(), frame))
    changed = [(a, b) for a, b in zip(whole, less, strict=True) if a.sentences != b.sentences]
    ((before, after),) = changed
    assert after.title == "Keys and values" and after.sentences == before.sentences[1:]
    assert findings.markdown(by_name(frame[frame.claim != "project_values"])).count("\n- ") == len(whole) - 1
    assert not any(section.sentences for section in findings.sections({}))


@pytest.mark.parametrize("verdict", Verdict)
def test_a_headline_follows_the_verdict_of_its_own_claim(verdict):
    names = [section["claim"] for section in findings.TEXT["sections"]]
    for number, name in enumerate(names):
        found = findings.sections(by_name(table(**dict.fromkeys(names, "not tested") | {name: verdict})))
        section = findings.TEXT["sections"][number]
        wanted = section["headlines"].get(verdict, section["headlines"]["else"])
        assert found[number].headline.replace("’", "'") == wanted and found[number].verdict == verdict
        assert all("does not decide" in part.headline for i, part in enumerate(found) if i != number)


def test_advice_is_given_where_the_verdicts_support_it():
    conditions = [each["when"] for each in findings.TEXT["advice"][:-1]]
    supported = {name: words[0] for when in conditions for name, words in when.items()}
    assert len(findings.advice(by_name(table(**supported)))) == len(findings.TEXT["advice"])
    assert len(findings.advice(by_name(table(**dict.fromkeys(supported, "not tested"))))) == 1


def test_the_text_names_claims_that_are_there_and_verdicts_that_can_be():
    known, words = {claim.name for claim in CLAIMS}, {*map(str, Verdict), "else"}
    named = {found[1] for sentence in SENTENCES for found in PLACE.finditer(sentence)}
    named |= {section["claim"] for section in findings.TEXT["sections"]}
    assert named <= known
    for section in findings.TEXT["sections"]:
        assert set(section["headlines"]) <= words and "else" in section["headlines"]
    for each in findings.TEXT["advice"][:-1]:
        assert set(each["when"]) <= known and set().union(*each["when"].values()) <= words


def test_its_figures_are_drawn_by_the_default_reproduction():
    figures = registry.figures(planning.configured(ROOT / "config.yaml", {}).model_dump(mode="json"))
    assert {section["figure"] for section in findings.TEXT["sections"] if "figure" in section} <= set(figures)
