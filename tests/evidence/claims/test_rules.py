"""How findings become verdicts, and how often a verdict is wrong."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate
from layernorm_roles.evidence.claims import rules

SEEN, SMALLER, ABSENT, AGAINST, UNDECIDED = rules.Finding
THERE, NOT_THERE = (SEEN, SMALLER), (ABSENT, AGAINST)


@pytest.mark.parametrize("seeds", [3, 10])
def test_a_verdict_is_rarely_wrong(seeds):
    """No effect is called seen, or reversed, and the reported one absent, in at most 2.5 % of repetitions each."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2000, seeds))
    nothing = [rules.effect(Estimate.of(draw), 0.5) for draw in draws]
    everything = [rules.effect(Estimate.of(1.0 + draw), 0.5) for draw in draws]
    most = 0.025 + 3 * np.sqrt(0.025 * 0.975 / len(draws))
    assert np.mean([finding in THERE for finding in nothing]) < most
    assert np.mean([finding == AGAINST for finding in nothing]) < most
    assert np.mean([finding in NOT_THERE for finding in everything]) < most


FINDINGS = {
    (0.6, 0.1, 1.1): SEEN,
    (0.5, 0.1, 0.9): SEEN,
    (0.4, 0.1, 0.7): SMALLER,
    (0.1, -0.2, 0.4): ABSENT,
    (-0.1, -0.6, 0.4): ABSENT,
    (-0.3, -0.5, -0.1): AGAINST,
    (0.4, -0.1, 0.9): UNDECIDED,
    (0.0, -np.inf, np.inf): UNDECIDED,
    # an end at 0, or at half of the effect
    (0.6, 0.0, 1.2): UNDECIDED,
    (-0.3, -0.6, 0.0): ABSENT,
    (0.1, -0.3, 0.5): UNDECIDED,
    NOTHING: UNDECIDED,
}


def test_findings_of_an_effect_of_one():
    assert {numbers: rules.effect(Estimate(*numbers), 0.5) for numbers in FINDINGS} == FINDINGS
    assert {rules.effect(NOTHING, 0.0), rules.above(NOTHING, 0.0)} == {UNDECIDED}


def test_an_interval_that_ends_at_a_threshold_is_at_most_as_much_and_not_above():
    below, above = Estimate(0.5, 0.0, 1.0), Estimate(1.5, 1.0, 2.0)
    assert (rules.above(below, 1.0), rules.above(above, 1.0)) == (ABSENT, UNDECIDED)
    assert (rules.at_most(below, 1.0), rules.at_most(above, 1.0)) == (SEEN, UNDECIDED)
    assert rules.at_most(below, 1.0, above) == UNDECIDED and rules.at_most(above, 0.9) == ABSENT


PAPER = dict.fromkeys(product(THERE, repeat=2), "partial") | {(SEEN, SEEN): "holds"}
PAPER |= dict.fromkeys(product(THERE, NOT_THERE), "confounded")
PAPER |= {(own, UNDECIDED): "inconclusive" for own in THERE}
for own, word in ((ABSENT, "does not hold"), (AGAINST, "does not hold"), (UNDECIDED, "inconclusive")):
    PAPER |= {(own, isolated): word for isolated in rules.Finding}


def test_verdicts_on_the_paper_need_both_comparisons():
    assert len(PAPER) == len(rules.Finding) ** 2
    assert {findings: rules.verdict(*findings) for findings in PAPER} == PAPER


def test_verdicts_on_statements_look_at_all_parts():
    for cause in rules.Finding:
        verdict = partial(rules.statement_verdict, cause=cause)
        assert {verdict(refuted) for refuted in product(NOT_THERE, repeat=2)} == {"does not hold"}
        for there, not_there in product(THERE, NOT_THERE):
            assert verdict([there, not_there, UNDECIDED]) == "partial"
            assert verdict([not_there, UNDECIDED]) == verdict([there, UNDECIDED]) == "inconclusive"
        assert verdict([SEEN, SMALLER]) == ("inconclusive" if cause == UNDECIDED else "partial")
        words = {SEEN: "holds", UNDECIDED: "inconclusive"}
        assert verdict([SEEN, SEEN]) == words.get(cause, "partial")


@given(st.lists(st.sampled_from(list(rules.Finding)), min_size=2, max_size=4))
def test_a_statement_that_says_several_things_is_no_more_seen_than_the_least_of_them(findings):
    whole = rules.all_of(*findings)
    assert (whole == SEEN) == all(f == SEEN for f in findings)
    assert (whole in THERE) == all(f in THERE for f in findings)
    assert (whole in NOT_THERE) == any(f in NOT_THERE for f in findings)
    assert (whole == AGAINST) == all(f == AGAINST for f in findings)


def test_what_a_claim_says_beside_its_number_can_make_it_partial_and_no_better():
    for own, isolated in PAPER:
        number = rules.verdict(own, isolated)
        assert rules.verdict(own, isolated, SEEN, SMALLER) == number
        against = rules.verdict(own, isolated, SEEN, AGAINST, UNDECIDED)
        assert against == ("partial" if number == "holds" else number)
        unknown = rules.verdict(own, isolated, UNDECIDED)
        assert unknown == ("inconclusive" if number == "holds" else number)
