"""Intervals over seeds. A seed is the unit everywhere: steps and contexts of one run are not independent."""

import numpy as np
from jaxtyping import Float
from scipy import stats


def t_interval(values: Float[np.ndarray, " seeds"], level: float = 0.95) -> tuple[float, float]:
    """Student's interval for the mean; with a single value, that value twice."""
    values = np.asarray(values, dtype=float)
    mean = values.mean()
    if len(values) < 2:
        return mean, mean
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return mean - half, mean + half


def bootstrap_interval(
    values: Float[np.ndarray, " seeds"], level: float = 0.95, resamples: int = 10_000
) -> tuple[float, float]:
    """Percentile bootstrap of the mean over seeds, with a fixed generator; NaN with fewer than two values."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return np.nan, np.nan
    draws = np.random.default_rng(0).choice(values, size=(resamples, len(values)))
    low, high = np.quantile(draws.mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
