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


def half_width(values: Values, level: float = LEVEL) -> float:
    """Return half the length of Student's interval for the mean of two or more independent values."""
    values = np.asarray(values, dtype=float)
    return stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values))


class Estimate(NamedTuple):
    """A measured number, mostly a mean over seeds, and the two ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Values, level: float = LEVEL) -> "Estimate":
        """Return the mean of `values`, one for each seed, with Student's interval of a confidence `level`.

        The interval of a single value has length 0. If a value is NaN, mean and interval are NaN. An infinite value
        stands for a diverged run, and makes the mean infinite. If plus infinity is among the values, the upper end is
        plus infinity, and the lower end is minus infinity, unless nearly all values are infinite: then it is plus
        infinity.
        """
        values = np.asarray(values, dtype=float)
        if np.isinf(values).any() and not np.isnan(values).any():
            infinite = np.where(np.isinf(values), np.sign(values), 0.0)
            return cls.of(infinite, level).map(lambda end: end * np.inf)
        mean, half = float(values.mean()), float(half_width(values, level)) if len(values) > 1 else 0.0
        return cls(mean, mean - half, mean + half)

    @classmethod
    def of_any(cls, values: Values, level: float = LEVEL) -> "Estimate":
        """Return the mean of `values`, however few, with Student's interval of a confidence `level`.

        For a single value both ends of the interval are NaN; without values the mean is NaN, too.
        """
        values = np.asarray(values, dtype=float)
        if len(values) > 1:
            return cls.of(values, level)
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


def binomial(hits: int, n: int, level: float = LEVEL) -> Estimate:
    """Return the share (0..1) of `hits` in `n` independent cases, with Clopper and Pearson's (1934) interval."""
    tail = (1 - level) / 2
    low = betaincinv(hits, n - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return Estimate(hits / n, float(low), float(high))


def percent_over_seeds(percent: Values, n: int, level: float = LEVEL) -> Estimate:
    """Return the mean of percentages, one for each seed, with its interval.

    `n` is the number of cases, such as keys, behind all percentages together. The interval is Student's over seeds. If
    all percentages are 0, or all are 100, it is Clopper and Pearson's for `n` independent cases.
    """
    estimate = Estimate.of(percent, level)
    if estimate.mean in (0, 100) and estimate.low == estimate.high:
        return binomial(round(n * estimate.mean / 100), n, level).map(lambda share: 100 * share)
    return estimate


def p_value(estimate: Estimate, n: int, level: float = LEVEL) -> float:
    """Return the two-sided p-value of Student's t-test that the mean of `n` values is 0.

    It follows from the interval of `estimate`, whose confidence is `level`; it is NaN if the interval is infinite or
    asymmetric, or if `n` < 2.
    """
    mean, low, high = estimate
    if n < 2 or not np.isfinite(estimate).all() or not np.isclose(high - mean, mean - low, rtol=1e-6, atol=0):
        return np.nan
    error = (high - low) / 2 / stdtrit(n - 1, (1 + level) / 2)
    return float(2 * stdtr(n - 1, -abs(mean) / error))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values of hypotheses, by name, adjusted by Holm's (1979) method.

    A p-value of NaN stays NaN, but counts in the number of hypotheses by which the others are adjusted.
    """
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
    """Return, for each seed, the setting (such as a rate) that is best in the half of the seeds without this seed.

    `values` has one row for each seed and one column for each setting; less is better, and a failed run has infinity.
    Settings that lack a value for some seed are left out. The sorted seeds go alternately into two halves. The best
    setting in a half has the fewest infinite values and, among several such settings, the lowest mean of the finite
    values. Thus no seed helps to choose its own setting, and the mean over seeds is not biased towards lucky runs. The
    result is empty for a single seed.
    """
    values = values.dropna(axis="columns").sort_index()
    if len(values) < 2 or values.empty:
        return pd.Series(dtype=float)
    halves = values.iloc[::2], values.iloc[1::2]
    chosen = {seed: _best(choosing) for judged, choosing in (halves, halves[::-1]) for seed in judged.index}
    return pd.Series(chosen).sort_index()


def rates_chosen_by_others(runs: pd.DataFrame, worse: str, inside: int) -> pd.DataFrame:
    """Return, for each variant and seed, the learning rate that is best in the half of the seeds without this seed.

    `runs` has a row for each run; the column called `worse` is the number to be kept low, infinite if the run failed. A
    variant's sorted seeds go alternately into two halves. The best rate in a half has the fewest failed runs and, among
    several such rates, the lowest mean of `worse`. Columns: variant, seed, base_learning_rate, at_end (whether at least
    `inside` rates were tried and the best is the lowest or highest of them). A variant with several rates but a single
    seed has no row.
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
    """The smallest and the largest value as a text such as "3 to 1,200"; a single number if both are written alike.

    `form` is Python's format specification for both numbers.
    """
    low, high = (f"{end:{form}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def log_ratio(
    numerator: pd.Series, denominator: pd.Series, at_least: tuple[pd.Series, pd.Series], level: float = LEVEL
) -> Estimate:
    """Return the mean of log(numerator / denominator) over the seeds in both indices, with its interval.

    NaN stands for a run that did not reach its goal; the pair `at_least` has series of lower bounds that replace NaN in
    numerator and denominator. If only numerators are NaN, the mean is a lower bound and the upper end is infinite. If
    only denominators are NaN, the mean is an upper bound and the lower end is minus infinity. If both happen, in
    different seeds, or no seed has a number, the mean is NaN and both ends are infinite. A seed with NaN in both counts
    as a ratio of 1; as this is a guess, a lower end <= 0 is then made minus infinity, an upper end >= 0 infinity.
    """
    seeds = numerator.index.intersection(denominator.index)
    top, bottom = numerator[seeds], denominator[seeds]
    neither = top.isna() & bottom.isna()
    top_open, bottom_open = (top.isna() & ~neither).any(), (bottom.isna() & ~neither).any()
    if neither.all() or (top_open and bottom_open):
        return Estimate(np.nan, -np.inf, np.inf)
    logarithms = np.log(top.fillna(at_least[0][seeds]) / bottom.fillna(at_least[1][seeds]))
    mean, low, high = Estimate.of(logarithms.mask(neither, 0.0), level)
    return Estimate(
        mean,
        -np.inf if bottom_open or (neither.any() and low <= 0) else low,
        np.inf if top_open or (neither.any() and high >= 0) else high,
    )


def two_by_two(
    values: pd.DataFrame, large: tuple[str, str], small: tuple[str, str], other: str
) -> pd.DataFrame:
    """Return the effects of size and another factor, and their interaction, for each seed that has all four values.

    `values` has one row for each seed and one column for each variant. `large` and `small` each name two variants,
    first with the other factor, then without it; `other` names the factor. Columns: size, the large minus the small
    variants, averaged over the other factor; `other`, the variants with the factor minus those without it, averaged
    over both sizes; interaction, the effect of the factor at the large size minus its effect at the small size.
    """
    values = values[[*large, *small]].dropna()
    with_large, without_large, with_small, without_small = (values[name] for name in values)
    at_large, at_small = with_large - without_large, with_small - without_small
    size = (with_large + without_large - with_small - without_small) / 2
    return pd.DataFrame({"size": size, other: (at_large + at_small) / 2, "interaction": at_large - at_small})
