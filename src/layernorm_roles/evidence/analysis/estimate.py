"""Means over seeds with 95 % intervals, tests of them, and settings that one half of the seeds chooses for the other.

A seed is the unit of every interval: steps, layers and contexts of one run are not independent of each other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Shaped
from scipy.special import betaincinv, stdtr, stdtrit

Values = Shaped[np.ndarray, " seeds"] | pd.Series | Sequence[float]

LEVEL = 0.95
"""Confidence level of all intervals, of means over seeds and of shares alike."""


def half_width(values: Values) -> float:
    """Half the length of Student's 95 % interval for the mean of two or more independent values."""
    values = np.asarray(values, dtype=float)
    return stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values))


class Estimate(NamedTuple):
    """A mean over seeds and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Values) -> "Estimate":
        """Return the mean of values, one a seed, with Student's 95 % interval, whose length is 0 for a single value.

        NaN if a value is NaN. Infinite values are diverged runs, worse by an unknown amount. They make the mean
        infinite and the interval the limit of Student's as they grow together: the lower end is infinite too if nearly
        all runs diverged, and else minus infinity.
        """
        values = np.asarray(values, dtype=float)
        if np.isinf(values).any() and not np.isnan(values).any():
            infinite = np.where(np.isinf(values), np.sign(values), 0.0)
            return cls.of(infinite).map(lambda end: end * np.inf)
        mean, half = float(values.mean()), float(half_width(values)) if len(values) > 1 else 0.0
        return cls(mean, mean - half, mean + half)

    @classmethod
    def of_any(cls, values: Values) -> "Estimate":
        """Return the mean with Student's 95 % interval: NaN for a single value, and mean and interval NaN for none."""
        values = np.asarray(values, dtype=float)
        if len(values) > 1:
            return cls.of(values)
        return NOTHING._replace(mean=float(values[0])) if len(values) else NOTHING

    def map(self, function: Callable[[float], float]) -> "Estimate":
        """Return the estimate with an increasing `function` applied to the mean and to both ends of the interval."""
        return Estimate(*map(float, map(function, self)))

    def __neg__(self) -> "Estimate":
        """The estimate of the number times -1: all signs change, and the ends of the interval change places."""
        return Estimate(-self.mean, -self.high, -self.low)

    def __abs__(self) -> "Estimate":
        """This estimate or, if its mean is below 0, its negative."""
        return self if self.mean >= 0 else -self


NOTHING = Estimate(np.nan, np.nan, np.nan)
"""The estimate of a number that was not measured: NaN with NaN as its interval."""


def binomial(hits: int, n: int) -> Estimate:
    """The share (0..1) that `hits` are of `n` independent cases, with Clopper and Pearson's (1934) 95 % interval."""
    tail = (1 - LEVEL) / 2
    low = betaincinv(hits, n - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return Estimate(hits / n, float(low), float(high))


def percent_over_seeds(percent: Values, n: int) -> Estimate:
    """Mean and 95 % interval of percentages, one for each seed, of `n` cases in all seeds together.

    The interval is Student's; where all percentages are 0, or all 100, it is Clopper and Pearson's for `n` cases.
    """
    estimate = Estimate.of(percent)
    if estimate.mean in (0, 100) and estimate.low == estimate.high:
        return binomial(round(n * estimate.mean / 100), n).map(lambda share: 100 * share)
    return estimate


def p_value(estimate: Estimate, n: int) -> float:
    """Two-sided p of Student's test that the mean of `n` values is 0; NaN unless the interval is Student's."""
    mean, low, high = estimate
    if n < 2 or not np.isfinite(estimate).all() or not np.isclose(high - mean, mean - low, rtol=1e-6, atol=0):
        return np.nan
    error = (high - low) / 2 / stdtrit(n - 1, (1 + LEVEL) / 2)
    return float(2 * stdtr(n - 1, -abs(mean) / error))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """P-values of hypotheses by name, adjusted by Holm's (1979) method; NaN stays NaN but counts as a hypothesis."""
    adjusted, least, left = dict(p), 0.0, len(p)
    for name in sorted((name for name in p if np.isfinite(p[name])), key=p.__getitem__):
        least = max(least, min(1.0, left * p[name]))
        adjusted[name], left = least, left - 1
    return adjusted


def _best(values: pd.DataFrame) -> object:
    """Name of the column with the fewest infinite values and, of several, with the lowest mean of the finite ones."""
    lost = np.isinf(values).sum()
    return values[lost.index[lost == lost.min()]].replace(np.inf, np.nan).mean().fillna(np.inf).idxmin()


def cross_fitted(values: pd.DataFrame) -> pd.Series:
    """Return for each seed the setting, such as a learning rate, that the other half of the seeds chooses.

    `values` has a row a seed and a column a setting; less is better, and a run that failed is infinite. Settings that a
    seed lacks are left out; with one seed nothing is chosen. The halves are every second of the sorted seeds and the
    rest. A half chooses the setting with the fewest infinite values and, of several, with the lowest mean of the
    others. So no seed helps to choose its setting, and the chosen values of all seeds are not those that happened to be
    good; their mean has Student's interval, in which the two settings count as given.
    """
    values = values.dropna(axis="columns").sort_index()
    if len(values) < 2 or values.empty:
        return pd.Series(dtype=float)
    halves = values.iloc[::2], values.iloc[1::2]
    chosen = {seed: _best(choosing) for judged, choosing in (halves, halves[::-1]) for seed in judged.index}
    return pd.Series(chosen).sort_index()


def rates_chosen_by_others(runs: pd.DataFrame, worse: str, inside: int) -> pd.DataFrame:
    """Return, for each variant and seed, the learning rate that is best for the other half of the variant's seeds.

    Columns variant, seed, base_learning_rate and at_end; no row for a variant of several rates and a single seed. The
    halves are every second seed and the rest. A half's best rate has the fewest failed runs, which are infinite in
    column `worse` of `runs`, and of several such rates the lowest mean of that column. `at_end` says that the rate is
    the lowest or highest of at least `inside` rates, so that a better one may lie beyond.
    """
    rows = []
    for variant, part in runs.groupby("variant"):
        values = part.pivot(index="seed", columns="base_learning_rate", values=worse)
        tried = values.columns
        chosen = cross_fitted(values) if len(tried) > 1 else pd.Series(tried[0], index=values.index)
        for seed, rate in chosen.items():
            rows.append((variant, seed, rate, len(tried) >= inside and rate in (tried.min(), tried.max())))
    found = pd.DataFrame(rows, columns=["variant", "seed", "base_learning_rate", "at_end"])
    return found.astype(runs.dtypes[["variant", "seed", "base_learning_rate"]].to_dict() | {"at_end": bool})


def span(values: Values, form: str = ",") -> str:
    """The text "low to high" of the smallest and the largest value in format `form`; one number if they are equal."""
    low, high = (f"{end:{form}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def log_ratio(
    numerator: pd.Series, denominator: pd.Series, at_least: tuple[pd.Series, pd.Series]
) -> Estimate:
    """Mean and interval of log(numerator / denominator), over the seeds that both series have as their index.

    A missing value is one that was not reached; in its place stands a lower bound from `at_least` (for the numerator,
    for the denominator). With missing numerators the mean is a lower bound and the upper end infinite; with missing
    denominators the mean is an upper bound and the lower end infinite; with both, or without any value, the mean is NaN
    and both ends are infinite. A seed that lacks both values counts as no difference, but not as evidence of that: an
    end of the interval that does not exclude a ratio of 1 is infinite then.
    """
    seeds = numerator.index.intersection(denominator.index)
    top, bottom = numerator[seeds], denominator[seeds]
    neither = top.isna() & bottom.isna()
    top_open, bottom_open = (top.isna() & ~neither).any(), (bottom.isna() & ~neither).any()
    if neither.all() or (top_open and bottom_open):
        return Estimate(np.nan, -np.inf, np.inf)
    logarithms = np.log(top.fillna(at_least[0][seeds]) / bottom.fillna(at_least[1][seeds]))
    mean, low, high = Estimate.of(logarithms.mask(neither, 0.0))
    return Estimate(
        mean,
        -np.inf if bottom_open or (neither.any() and low <= 0) else low,
        np.inf if top_open or (neither.any() and high >= 0) else high,
    )


def two_by_two(
    values: pd.DataFrame, large: tuple[str, str], small: tuple[str, str], other: str
) -> pd.DataFrame:
    """Main effects and interaction of size and another factor, for each seed that has all four values.

    `values` has a row a seed and a column a variant. `large` and `small` name two variants each: with the other factor
    and without. Columns size (large minus small, mean over the other factor), `other` (with it minus without, mean over
    both sizes), and interaction (the effect of the other factor at the large size minus that at the small one).
    """
    values = values[[*large, *small]].dropna()
    with_large, without_large, with_small, without_small = (values[name] for name in values)
    at_large, at_small = with_large - without_large, with_small - without_small
    size = (with_large + without_large - with_small - without_small) / 2
    return pd.DataFrame({"size": size, other: (at_large + at_small) / 2, "interaction": at_large - at_small})
