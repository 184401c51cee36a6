"""Means, intervals and exponents on values whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from layernorm_roles.evidence.analysis.estimate import Estimate, bootstrap_interval, power_law, t_interval

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8)


def test_interval_of_three_values_is_the_tables():
    """Student's factor for two degrees of freedom is 4.303; 1, 2, 3 have a standard error of 1 / sqrt(3)."""
    low, high = t_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), rel=1e-4)
    assert t_interval([5.0]) == (5.0, 5.0)


@given(NUMBERS)
def test_interval_is_scipys(values):
    ours = t_interval(values)
    if np.std(values) > 1e-6:
        theirs = stats.ttest_1samp(values, 0).confidence_interval()
        assert ours == pytest.approx((theirs.low, theirs.high), rel=1e-6, abs=1e-6)
    assert ours[0] <= np.mean(values) + 1e-9 and ours[1] >= np.mean(values) - 1e-9


def test_bootstrap_covers_the_mean_and_is_the_same_again():
    values = np.random.default_rng(1).normal(3.0, 1.0, 40)
    low, high = bootstrap_interval(values)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 40**0.5, rel=0.1)
    assert bootstrap_interval(values) == (low, high)
    assert np.isnan(bootstrap_interval([1.0])).all()


def test_estimates_read_well_and_map():
    estimate = Estimate(4.0, 1.0, 9.0)
    assert f"{estimate:.1f}" == "4.0 [1.0, 9.0]" and f"{estimate:+.0f}" == "+4 [+1, +9]"
    assert estimate.map(np.sqrt) == Estimate(2.0, 1.0, 3.0)
    assert estimate.below(10.0) == Estimate(6.0, 1.0, 9.0)


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


@given(st.floats(-3, 3), st.floats(0.1, 10))
def test_power_law_is_found_whatever_its_factor(exponent, factor):
    x = np.array([1.0, 2.0, 4.0, 8.0])
    table = pd.concat(
        pd.DataFrame({"seed": seed, "x": x, "y": factor * (seed + 1) * x ** (exponent + seed / 10)})
        for seed in range(3)
    )
    found = power_law("x", "y", table)
    assert found.mean == pytest.approx(exponent + 0.1, abs=1e-9)
    assert found.high - found.mean == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-3)
