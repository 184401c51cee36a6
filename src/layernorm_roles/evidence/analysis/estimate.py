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
    """Half the length of Student's interval for the mean of independent values, of which there are at least two."""
    values = np.asarray(values, dtype=float)
    return stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values))


class Estimate(NamedTuple):
    """A mean over seeds and the ends of its 95 % interval; formatted as "mean [low, high]"."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Values) -> "Estimate":
        """Return the mean of values, one a seed, with Student's interval (no length for one); NaN if one is.

        Infinite values stand for diverged runs, which are worse by an amount that nobody knows. With them the mean is
        infinite, and the interval is the limit of Student's as all infinite values grow together: its lower end becomes
        infinite too if nearly all runs diverged, and else says nothing (minus infinity).
        """
        values = np.asarray(values, dtype=float)
        if np.isinf(values).any() and not np.isnan(values).any():
            infinite = np.where(np.isinf(values), np.sign(values), 0.0)
            return cls.of(infinite).map(lambda end: end * np.inf)
        mean, half = float(values.mean()), float(half_width(values)) if len(values) > 1 else 0.0
        return cls(mean, mean - half, mean + half)

    @classmethod
    def of_any(cls, values: Values) -> "Estimate":
        """The mean with Student's interval; a single value has no interval (NaN), and no values give NOTHING."""
        values = np.asarray(values, dtype=float)
        if len(values) > 1:
            return cls.of(values)
        return NOTHING._replace(mean=float(values[0])) if len(values) else NOTHING

    def map(self, function: Callable[[float], float]) -> "Estimate":
        """Return the estimate whose mean and ends are the increasing `function` of this one's."""
        return Estimate(*map(float, map(function, self)))

    def __neg__(self) -> "Estimate":
        """The estimate of the negative of the number, whose interval has its ends exchanged."""
        return Estimate(-self.mean, -self.high, -self.low)

    def __abs__(self) -> "Estimate":
        """The estimate itself, or its negative where that has the positive mean."""
        return self if self.mean >= 0 else -self

    def __format__(self, form: str) -> str:
        """The text "mean [low, high]" with every number in the format `form`."""
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


NOTHING = Estimate(np.nan, np.nan, np.nan)
"""The estimate of a number that was not measured: NaN with NaN as its interval."""


def binomial(hits: int, n: int) -> Estimate:
    """The share (0..1) that `hits` are of `n` independent cases, with the interval of Clopper and Pearson (1934)."""
    tail = (1 - LEVEL) / 2
    low = betaincinv(hits, n - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, n - hits, 1 - tail) if hits < n else 1.0
    return Estimate(hits / n, float(low), float(high))


def percent_over_seeds(percent: Values, n: int) -> Estimate:
    """Mean and interval of one share a seed, in per cent, of `n` cases in all seeds together.

    The interval is Student's. Where every case, or none, is a hit in every seed, so that Student's has no length, its
    ends are Clopper and Pearson's for `n` cases.
    """
    estimate = Estimate.of(percent)
    if estimate.mean in (0, 100) and estimate.low == estimate.high:
        return binomial(round(n * estimate.mean / 100), n).map(lambda share: 100 * share)
    return estimate


def p_value(estimate: Estimate, n: int) -> float:
    """Two-sided p of Student's test that the mean of `n` values is 0, from the mean and its interval; else NaN.

    NaN if the interval is not Student's: of fewer than two values, of a bound, or of one that is not finite.
    """
    mean, low, high = estimate
    if n < 2 or not np.isfinite(estimate).all() or not np.isclose(high - mean, mean - low, rtol=1e-6, atol=0):
        return np.nan
    error = (high - low) / 2 / stdtrit(n - 1, (1 + LEVEL) / 2)
    return float(2 * stdtr(n - 1, -abs(mean) / error))


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """The p-values of a family of hypotheses by name, adjusted by Holm's (1979) method.

    A hypothesis that could not be tested has NaN, stays NaN, and still counts in the size of the family.
    """
    adjusted, least, left = dict(p), 0.0, len(p)
    for name in sorted((name for name in p if np.isfinite(p[name])), key=p.__getitem__):
        least = max(least, min(1.0, left * p[name]))
        adjusted[name], left = least, left - 1
    return adjusted


def _best(values: pd.DataFrame) -> object:
    """The column with the fewest infinite values, of these the one with the lowest mean of the others."""
    lost = np.isinf(values).sum()
    return values[lost.index[lost == lost.min()]].replace(np.inf, np.nan).mean().fillna(np.inf).idxmin()


def cross_fitted(values: pd.DataFrame) -> pd.Series:
    """Return for each seed the setting, such as a learning rate, that the other half of the seeds chooses.

    `values` has a row a seed and a column a setting; less is better, and infinite is a run that came to nothing.
    Settings that a seed lacks are left out, and with one seed nothing is chosen. The seeds at even places of their
    order choose for those at odd places, and the other way round: the setting with the fewest runs that came to nothing
    and, among equals, with the lowest mean of the others. So no seed has a part in the choice of its own setting, and a
    mean over all seeds is one of values that were not chosen for being good; its interval is Student's over the seeds,
    in which the two settings count as given.
    """
    values = values.dropna(axis="columns").sort_index()
    if len(values) < 2 or values.empty:
        return pd.Series(dtype=float)
    halves = values.iloc[::2], values.iloc[1::2]
    chosen = {seed: _best(choosing) for judged, choosing in (halves, halves[::-1]) for seed in judged.index}
    return pd.Series(chosen).sort_index()


def rates_chosen_by_others(runs: pd.DataFrame, worse: str, inside: int) -> pd.DataFrame:
    """Return, for each run, the learning rate that is best for the other half of its variant's seeds.

    Columns variant, seed, base_learning_rate and at_end; a row for each variant and seed, none for a variant of several
    rates and a single seed. `cross_fitted` says how the halves choose, by the lowest `worse`, a column of `runs` that
    is infinite where a run came to nothing. `at_end` says that the rate is the smallest or the largest of at least
    `inside` that were tried, so that a better one may lie beyond.
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
    """The text "low to high" of the smallest and the largest value, or of the one value that all are.

    `form` is the format of both numbers.
    """
    low, high = (f"{end:{form}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def log_ratio(
    numerator: pd.Series, denominator: pd.Series, at_least: tuple[pd.Series, pd.Series]
) -> Estimate:
    """Mean and interval of log(numerator / denominator), over the seeds that both series have as their index.

    A missing value is one that was not reached; `at_least` says for both series what it is at least. That stands in
    for the missing value, and the mean becomes a bound: no less than the one given, with an infinite upper end, if
    values of the numerator are missing; no more, with an infinite lower end, if values of the denominator are. If there
    are seeds of either kind, or no seed with a value at all, the mean is NaN and both ends are infinite.

    A seed that has neither value says nothing. It counts as no difference where that weakens an effect, and is no
    evidence for the absence of one: an end of the interval that does not exclude a ratio of 1 is infinite.
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
    """Main effects and interaction of size and another factor, of the seeds that have all four values: a row a seed.

    `values` has a row a seed and a column a variant. `large` and `small` name two variants each: with the other factor
    and without. Columns size (large minus small, mean over both levels of the other factor), `other` (with it minus
    without, mean over both sizes), and interaction (the effect of the other factor at the large size minus that at the
    small one).
    """
    values = values[[*large, *small]].dropna()
    with_large, without_large, with_small, without_small = (values[name] for name in values)
    at_large, at_small = with_large - without_large, with_small - without_small
    size = (with_large + without_large - with_small - without_small) / 2
    return pd.DataFrame({"size": size, other: (at_large + at_small) / 2, "interaction": at_large - at_small})
