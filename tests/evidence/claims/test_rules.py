"""How findings become verdicts, and how often a verdict is wrong."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import (
    CONFOUNDED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTIAL,
    REPRODUCED,
)

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.claims import rules

SEEN, ABSENT, UNDECIDED = rules.Finding.SEEN, rules.Finding.ABSENT, rules.Finding.UNDECIDED


@pytest.mark.parametrize("seeds", [3, 10])
def test_a_verdict_is_rarely_wrong(seeds):
    """No effect is called seen, and the reported effect absent, in at most 2.5 % of repetitions (one tail each)."""
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((2000, seeds))
    nothing = [rules.effect(Estimate.of(draw), 1.0) for draw in draws]
    everything = [rules.effect(Estimate.of(1.0 + draw), 1.0) for draw in draws]
    most = 0.025 + 3 * np.sqrt(0.025 * 0.975 / len(draws))
    assert np.mean([finding == SEEN for finding in nothing]) < most
    assert np.mean([finding == ABSENT for finding in everything]) < most


ENDS = st.floats(-10, 10, allow_nan=False)


@given(ENDS, ENDS, ENDS, st.floats(0.01, 5), st.floats(0, 5))
def test_a_larger_effect_is_never_less_seen(a, b, c, reported, more):
    low, mean, high = sorted((a, b, c))
    rank = [ABSENT, UNDECIDED, SEEN].index
    now = rules.effect(Estimate(mean, low, high), reported)
    then = rules.effect(Estimate(mean + more, low + more, high + more), reported)
    assert rank(then) >= rank(now)


def test_within_needs_the_whole_interval():
    assert rules.within(Estimate(0.5, 0.46, 0.54), 0.5, 0.05) == SEEN
    assert rules.within(Estimate(0.5, 0.44, 0.56), 0.5, 0.05) == UNDECIDED
    assert rules.within(Estimate(0.6, 0.56, 0.64), 0.5, 0.05) == ABSENT


def test_what_is_not_known_is_undecided():
    for finding in (
        rules.effect(rules.NOTHING, 1.0),
        rules.above(rules.NOTHING, 0.0),
        rules.within(rules.NOTHING, 0.0, 1.0),
    ):
        assert finding == UNDECIDED


def test_verdicts_on_the_paper_need_both_comparisons():
    assert rules.verdict(SEEN, SEEN) == REPRODUCED
    assert rules.verdict(SEEN, ABSENT) == CONFOUNDED
    assert rules.verdict(SEEN, UNDECIDED) == NOT_TESTED
    assert {rules.verdict(ABSENT, other) for other in rules.Finding} == {NOT_REPRODUCED}
    assert {rules.verdict(UNDECIDED, other) for other in rules.Finding} == {NOT_TESTED}


def test_verdicts_on_statements_look_at_all_parts():
    for cause in rules.Finding:
        assert rules.statement_verdict([ABSENT, ABSENT], cause) == DOES_NOT_HOLD
        assert rules.statement_verdict([SEEN, ABSENT, UNDECIDED], cause) == PARTIAL
        assert rules.statement_verdict([ABSENT, UNDECIDED], cause) == NOT_TESTED
        assert rules.statement_verdict([SEEN, UNDECIDED], cause) == NOT_TESTED
    assert rules.statement_verdict([SEEN, SEEN], SEEN) == HOLDS
    assert rules.statement_verdict([SEEN, SEEN], ABSENT) == PARTIAL
    assert rules.statement_verdict([SEEN, SEEN], UNDECIDED) == NOT_TESTED


def test_the_order_of_the_parts_does_not_matter():
    for parts in product(rules.Finding, repeat=3):
        assert (
            len({rules.statement_verdict(order) for order in (parts, parts[::-1], parts[1:] + parts[:1])})
            == 1
        )


def test_every_word_is_defined():
    assert set(rules.MEANINGS) == set(rules.Verdict)
