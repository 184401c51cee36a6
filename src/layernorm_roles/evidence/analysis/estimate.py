"""Means over seeds with 95 % intervals.

A seed is the unit of every interval: steps, layers and contexts of one run are not independent of each other.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Shaped
from scipy.special import stdtrit

Values = Shaped[np.ndarray, " seeds"] | pd.Series | Sequence[float]

LEVEL = 0.95
"""Confidence level of every interval."""


def half_width(values: Values) -> float:
    """Half the length of Student's interval for the mean of independent values, of which there are at least two."""
    values = np.asarray(values, dtype=float)
    return stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values))


def t_interval(values: Values) -> tuple[float, float]:
    """Ends of Student's interval for the mean of independent values; a single value is returned as both ends."""
    values = np.asarray(values, dtype=float)
    mean = values.mean()
    if len(values) < 2:
        return mean, mean
    half = half_width(values)
    return mean - half, mean + half


class Estimate(NamedTuple):
    """A mean over seeds and the ends of its 95 % interval; formatted as "mean [low, high]"."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Values) -> "Estimate":
        """The mean of one value a seed with Student's interval; NaN if a value is NaN.

        Infinite values stand for diverged runs, which are worse by an amount that nobody knows. With them the mean
        is infinite, and the interval is the limit of Student's as all infinite values grow together: its lower end
        becomes infinite too if nearly all runs diverged, and else says nothing (minus infinity).
        """
        values = np.asarray(values, dtype=float)
        if np.isinf(values).any() and not np.isnan(values).any():
            infinite = np.where(np.isinf(values), np.sign(values), 0.0)
            return cls.of(infinite).map(lambda end: end * np.inf)
        return cls(float(values.mean()), *map(float, t_interval(values)))

    @classmethod
    def of_any(cls, values: Values) -> "Estimate":
        """The mean with Student's interval; of a single value it alone, with NaN for both ends; of none NOTHING."""
        values = np.asarray(values, dtype=float)
        if len(values) > 1:
            return cls.of(values)
        return NOTHING._replace(mean=float(values[0])) if len(values) else NOTHING

    def map(self, function: Callable[[float], float]) -> "Estimate":
        """The increasing `function` of the mean and of both ends."""
        return Estimate(*map(float, map(function, self)))

    def below(self, reference: float) -> "Estimate":
        """How far the estimate lies below a reference value that is known exactly."""
        return Estimate(reference - self.mean, reference - self.high, reference - self.low)

    def __format__(self, form: str) -> str:
        """The text "mean [low, high]" with every number in the format `form`."""
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


NOTHING = Estimate(np.nan, np.nan, np.nan)
"""Stands for a number that was not measured."""


def span(values: Values, form: str = ",") -> str:
    """The text "low to high" of the smallest and the largest value, or of the one value that all are.

    `form` is the format of both numbers.
    """
    low, high = (f"{end:{form}}" for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def log_ratio(
    numerator: pd.Series,
    denominator: pd.Series,
    at_least: tuple[pd.Series, pd.Series],
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


def power_law(x: str, y: str, table: pd.DataFrame) -> Estimate:
    """The exponent p of y ~ x^p: for each seed the slope of log y over log x, then their mean and interval.

    `x` and `y` are columns of `table`, with positive values.
    """
    by_seed = (np.cov(np.log(part[x]), np.log(part[y]), bias=True) for _, part in table.groupby("seed"))
    return Estimate.of([covariance[0, 1] / covariance[0, 0] for covariance in by_seed])
