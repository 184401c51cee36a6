"""Means, intervals and exponents on values whose truth is known."""

import numpy as np
import pandas as pd
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from layernorm_roles.evidence.analysis.estimate import (
    Estimate,
    binomial,
    cross_fitted,
    holm,
    log_ratio,
    p_value,
    percent_over_seeds,
    span,
    two_by_two,
)
from layernorm_roles.evidence.analysis.statements import exponent

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8)


@given(NUMBERS)
def test_interval_is_scipys(values):
    ours = Estimate.of(values)
    if np.std(values) > 1e-6:
        theirs = stats.ttest_1samp(values, 0).confidence_interval()
        assert ours == pytest.approx((np.mean(values), theirs.low, theirs.high), rel=1e-6, abs=1e-6)
    assert Estimate.of(values[:1]) == (values[0],) * 3


def test_estimates_read_well_and_map():
    estimate = Estimate(4.0, 1.0, 9.0)
    assert f"{estimate:.1f}" == "4.0 [1.0, 9.0]" and f"{estimate:+.0f}" == "+4 [+1, +9]"
    assert estimate.map(np.sqrt) == Estimate(2.0, 1.0, 3.0)
    assert -estimate == Estimate(-4.0, -9.0, -1.0) and abs(-estimate) == abs(estimate) == estimate


@pytest.mark.parametrize(
    ("values", "low"),
    [
        ([np.inf] * 3, np.inf),
        ([0.1, np.inf, np.inf], -np.inf),
        ([0.1] + 9 * [np.inf], np.inf),
        ([0.1] * 9 + [np.inf], -np.inf),
    ],
)
def test_infinite_values_make_the_mean_infinite_and_the_interval_the_limit(values, low):
    estimate = Estimate.of(values)
    assert estimate.mean == estimate.high == np.inf and estimate.low == low
    limit = Estimate.of(np.where(np.isinf(values), 1e12, values))
    assert np.sign(limit.low) == np.sign(low)
    assert Estimate.of([-value for value in values]) == Estimate(-np.inf, -np.inf, -low)


def test_infinite_values_of_both_signs_and_nan_say_nothing():
    assert np.isnan(Estimate.of([np.inf, -np.inf]).mean)
    assert np.isnan(Estimate.of([np.nan, np.inf, 1.0])).all()


@given(
    st.lists(st.floats(0.1, 3.0), min_size=3, max_size=3), st.sampled_from([0, 1, 2]), st.floats(1.0, 100.0)
)
def test_a_value_that_was_not_reached_makes_the_ratio_a_bound(logarithms, seed, beyond):
    """Whatever the missing value is, the mean with it is on the side that the bound says."""
    reached = pd.Series(np.exp(logarithms))
    last, one = 0 * reached + 30.0, 0 * reached + 1.0
    censored, truth = reached.copy(), reached.copy()
    censored[seed], truth[seed] = np.nan, 30.0 * beyond
    full = log_ratio(truth, one, at_least=(last, one))
    above = log_ratio(censored, one, at_least=(last, one))
    assert above.mean <= full.mean + 1e-9 and above.high == np.inf and np.isfinite(above.low)
    below = log_ratio(one, censored, at_least=(one, last))
    assert below.mean >= -full.mean - 1e-9 and below.low == -np.inf and np.isfinite(below.high)


def test_a_value_that_was_not_reached_counts_with_what_it_is_at_least():
    bottom, last = pd.Series([2.0, 2.0]), (pd.Series([80.0, 90.0]), pd.Series([10.0, 20.0]))
    found = log_ratio(pd.Series([8.0, np.nan]), bottom, at_least=last)
    assert np.exp(found.mean) == pytest.approx((8 / 2 * 90 / 2) ** 0.5)
    found = log_ratio(bottom, pd.Series([np.nan, 1.0]), at_least=last)
    assert np.exp(found.mean) == pytest.approx((2 / 10 * 2 / 1) ** 0.5)


def test_holm_s_p_values_never_fall_below_that_of_a_smaller_one():
    found = holm({"a": 0.03, "b": 0.01, "c": 0.02, "d": 0.021})
    assert found == pytest.approx({"a": 0.06, "b": 0.04, "c": 0.06, "d": 0.06})
    assert holm({"a": 0.9, "b": 0.6}) == {"a": 1.0, "b": 1.0}


def test_a_p_that_cannot_be_computed_counts_as_one_of_the_family_and_stays():
    found = holm({"a": np.nan, "b": 0.02, "c": 0.01, "d": np.inf})
    assert (found["b"], found["c"]) == pytest.approx((0.06, 0.04)), "four hypotheses, of which two have a p"
    assert np.isnan(found["a"]) and found["d"] == np.inf


LAST = pd.Series(100.0, index=range(6))


def test_a_seed_with_neither_value_weakens_an_effect_and_is_no_evidence_of_absence():
    """Five pairs with a ratio of about 10 show an effect, and with one more pair of nothing a weaker one."""
    bottom = pd.Series([10.0, 9.0, 11.0, 10.0, 10.0, np.nan])
    top = pd.Series([100.0, 100.0, 99.0, 101.0, 100.0, np.nan])
    five = log_ratio(top[:5], bottom[:5], at_least=(LAST, LAST))
    six = log_ratio(top, bottom, at_least=(LAST, LAST))
    assert 0 < six.low < five.low and six.mean == pytest.approx(five.mean * 5 / 6) and six.high == np.inf
    even = log_ratio(bottom, bottom, at_least=(LAST, LAST))
    assert even == (0, -np.inf, np.inf)
    never = log_ratio(top, bottom.where(bottom.isna()), at_least=(LAST, LAST / 10))
    assert never.low == -np.inf and never.high == np.inf, "all that is known: at most 10 times the steps"


@pytest.mark.parametrize("seeds", [2, 5, 8])
def test_the_other_half_of_the_seeds_chooses_by_lost_runs_and_then_by_the_mean_of_the_others(seeds):
    for number in range(20):
        rng = np.random.default_rng((seeds, number))
        values = pd.DataFrame(rng.random((seeds, 4)), index=rng.permutation(10 * seeds)[:seeds])
        values = values.mask(rng.random(values.shape) < 0.25, np.inf)
        lacking = values.assign(lacks=np.where(np.arange(seeds) == 0, np.nan, -1.0))
        order = sorted(values.index)
        halves = order[::2], order[1::2]
        expected = {seed: plain.best(values.loc[halves[seed in halves[0]]]) for seed in order}
        assert cross_fitted(lacking).to_dict() == expected


def test_shares_have_the_exact_interval_where_student_s_has_no_length():
    for hits, n in ((0, 9), (3, 9), (9, 9), (40, 48)):
        exact = stats.binomtest(hits, n).proportion_ci()
        assert binomial(hits, n) == pytest.approx((hits / n, exact.low, exact.high))
    for share in (0.0, 100.0):
        found = percent_over_seeds([share, share], 48)
        assert found == pytest.approx([100 * each for each in binomial(int(0.48 * share), 48)])
    assert percent_over_seeds([0.0, 100.0], 48) == pytest.approx(Estimate.of([0.0, 100.0]))
    assert percent_over_seeds([7.0, 7.0], 48) == (7, 7, 7)


def test_effects_of_two_factors_are_those_of_a_linear_model():
    """With levels of -1/2 and 1/2, fitted by least squares to each seed that has all four values."""
    values = pd.DataFrame(np.random.default_rng(3).random((5, 4)), columns=[*"abcd"])
    values.loc[2, "c"] = np.nan
    size, other = np.array([1, 1, -1, -1]) / 2, np.array([1, -1, 1, -1]) / 2
    design = np.stack([np.ones(4), size, other, size * other], axis=1)
    fitted = np.linalg.solve(design, values.dropna().to_numpy().T)[1:]
    found = two_by_two(values, ("a", "b"), ("c", "d"), "other")
    assert found.to_numpy().T == pytest.approx(fitted)
    assert [*found.index] == [0, 1, 3, 4]


def test_an_exponent_is_a_slope_and_a_p_is_student_s():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"seed": np.repeat([3, 5, 9], 6), "x": np.tile(2.0 ** np.arange(6), 3)})
    table["y"] = table.x**table.seed * np.exp(rng.standard_normal(18))
    seeds = [np.polyfit(np.log(part.x), np.log(part.y), 1)[0] for _, part in table.groupby("seed")]
    assert [exponent(part.x, part.y) for _, part in table.groupby("seed")] == pytest.approx(seeds)
    assert p_value(Estimate.of(seeds), 3) == pytest.approx(stats.ttest_1samp(seeds, 0).pvalue)
    assert np.isnan([p_value(Estimate.of(seeds), 1), p_value(Estimate(1.0, 0.5, np.inf), 3)]).all()
    assert span([3.0, 1234.0, 1.0], ",.0f") == "1 to 1,234" and span([0.5, 0.5], ".2f") == "0.50"
