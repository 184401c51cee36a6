"""Intervals of infinite values and of shares, bounds and choices: what tables, computed again, do not tell of them."""

import numpy as np
import pandas as pd
import plain
import pytest
from scipy import stats

from layernorm_roles.evidence.analysis.estimate import (
    NOTHING,
    Estimate,
    binomial,
    cross_fitted,
    holm,
    log_ratio,
    p_value,
    percent_over_seeds,
    rates_chosen_by_others,
    span,
)

INFINITE = [
    ([np.inf] * 3, np.inf),
    ([0.1, np.inf, np.inf], -np.inf),
    ([0.1] + 9 * [np.inf], np.inf),
    ([0.1] * 9 + [np.inf], -np.inf),
]


@pytest.mark.parametrize(("values", "low"), INFINITE)
def test_infinite_values_make_the_mean_infinite_and_the_interval_the_limit(values, low):
    estimate = Estimate.of(values)
    assert estimate.mean == estimate.high == np.inf and estimate.low == low
    assert np.sign(Estimate.of(np.where(np.isinf(values), 1e12, values)).low) == np.sign(low)
    assert Estimate.of([-value for value in values]) == Estimate(-np.inf, -np.inf, -low)


def test_infinite_values_of_both_signs_and_nan_say_nothing():
    assert np.isnan(Estimate.of([np.inf, -np.inf]).mean)
    assert np.isnan(Estimate.of([np.nan, np.inf, 1.0])).all()


def test_a_single_value_is_its_own_interval_and_a_negative_estimate_has_its_ends_exchanged():
    assert Estimate.of([7.0]) == (7.0, 7.0, 7.0)
    estimate = Estimate(4.0, 1.0, 9.0)
    assert -estimate == (-4.0, -9.0, -1.0) and abs(-estimate) == abs(estimate) == estimate


def test_a_value_that_was_not_reached_counts_with_what_it_is_at_least():
    bottom, last = pd.Series([2.0, 2.0]), (pd.Series([80.0, 90.0]), pd.Series([10.0, 20.0]))
    found = log_ratio(pd.Series([8.0, np.nan]), bottom, at_least=last)
    assert np.exp(found.mean) == pytest.approx((8 / 2 * 90 / 2) ** 0.5) and found.high == np.inf
    found = log_ratio(bottom, pd.Series([np.nan, 1.0]), at_least=last)
    assert np.exp(found.mean) == pytest.approx((2 / 10 * 2 / 1) ** 0.5) and found.low == -np.inf


def test_holm_s_p_values_never_fall_and_one_that_cannot_be_computed_counts_in_the_family():
    found = holm({"a": 0.03, "b": 0.01, "c": 0.02, "d": 0.021})
    assert found == pytest.approx({"a": 0.06, "b": 0.04, "c": 0.06, "d": 0.06})
    assert holm({"a": 0.9, "b": 0.6}) == {"a": 1.0, "b": 1.0}
    found = holm({"a": np.nan, "b": 0.02, "c": 0.01, "d": np.inf})
    assert [*found.values()] == pytest.approx([np.nan, 0.06, 0.04, np.inf], nan_ok=True)


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
        exact = [100 * each for each in binomial(int(0.48 * share), 48)]
        assert percent_over_seeds([share, share], 48) == pytest.approx(exact)
    assert percent_over_seeds([0.0, 100.0], 48) == pytest.approx(Estimate.of([0.0, 100.0]))
    assert percent_over_seeds([7.0, 7.0], 48) == (7, 7, 7)


def test_the_p_value_is_that_of_student_s_test_and_a_bound_has_none():
    values = [0.3, -0.1, 0.9, 0.4]
    assert p_value(Estimate.of(values), 4) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    none = Estimate(1.0, 0.5, np.inf), Estimate(1.0, 0.5, 2.0), Estimate.of_any([1.0]), NOTHING
    assert np.isnan([p_value(estimate, 4) for estimate in none] + [p_value(Estimate(1.0, 0.0, 2.0), 1)]).all()


def test_a_span_has_its_ends_or_the_one_number():
    assert span(pd.Series([3, 1, 2])) == "1 to 3" and span(pd.Series([1000, 1000])) == "1,000"


@pytest.mark.parametrize("inside", [1, 3, 4])
def test_a_chosen_rate_is_marked_where_it_is_an_end_of_enough_rates(inside):
    """Seeds choose for each other; a single rate needs no choice, and a single seed has none to choose for it."""
    best = {("ends", 0): 0.1, ("ends", 1): 0.3, ("middle", 0): 0.2, ("middle", 1): 0.2, ("alone", 0): 0.1}
    rows = [(*run, rate, abs(rate - own)) for run, own in best.items() for rate in (0.1, 0.2, 0.3)]
    rows.append(("one rate", 5, 0.2, 1.0))
    runs = pd.DataFrame(rows, columns=["variant", "seed", "base_learning_rate", "worse"])
    found = rates_chosen_by_others(runs, "worse", inside).to_numpy().tolist()
    ends = [["ends", 0, 0.3, inside <= 3], ["ends", 1, 0.1, inside <= 3]]
    middle = [["middle", seed, 0.2, False] for seed in (0, 1)]
    assert found == [*ends, *middle, ["one rate", 5, 0.2, inside == 1]]
