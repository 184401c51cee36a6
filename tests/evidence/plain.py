"""Student's interval, steps to a loss, and how many Gaussian keys are unselectable, from formulas of their own.

For computations that check those of layernorm_roles; nothing here comes from it.
"""

from functools import cache

import mpmath
import numpy as np
from scipy.special import stdtrit

DIGITS = 50
"""Of the sums below; their terms are far larger than the result."""


def interval(values) -> tuple[float, float, float]:
    """Mean and ends of Student's 95 % interval; three NaN for fewer than two values."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return np.nan, np.nan, np.nan
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean(), values.mean() - half, values.mean() + half


def best(values):
    """The column of a frame with the fewest infinite values, of these the first with the lowest mean of the others."""
    finite = {column: values[column][np.isfinite(values[column])] for column in values}
    return min(
        finite, key=lambda column: (-len(finite[column]), finite[column].sum() / max(len(finite[column]), 1))
    )


def arrival(run, column: str, loss: float) -> float:
    """The step at which a run first has a loss, on a straight line over log(1 + step); infinite if never."""
    run = run.sort_values("step").reset_index(drop=True)
    low = run.index[run[column] <= loss]
    if not len(low):
        return np.inf
    before, after = run.loc[low[0] - 1], run.loc[low[0]]
    share = (before[column] - loss) / (before[column] - after[column])
    return (1 + before.step) ** (1 - share) * (1 + after.step) ** share - 1


@cache
def gaussian(n: int, d: int) -> float:
    """Per cent of n Gaussian keys in d dimensions that are no vertices of their hull: 100 less those that are."""
    with mpmath.workdps(DIGITS):
        faces = (
            mpmath.binomial(n - 1, m) * _angle(m, -1, m) * _angle(n - 1 - m, 1, m)
            for m in range(d - 1, -1, -2)
        )
        return float(100 * (1 - 2 * sum(faces)))


@cache
def _angle(k: int, sign: int, m: int) -> mpmath.mpf:
    """The mean of Phi(sqrt(r) x)^k over a normal x, where r = sign / (m + 1), by the trapezoidal rule.

    Off the real axis the integrand grows as exp((1 + max(k r, 0)) y^2 / 2), on it it falls as
    exp(-(1 + min(k r, 0)) x^2 / 2); both say how close and how many the points must be.
    """
    with mpmath.workdps(DIGITS):
        r, needed = mpmath.mpf(sign) / (m + 1), DIGITS * mpmath.log(10)
        step = mpmath.pi * mpmath.sqrt(2 / (needed * (1 + max(k * r, 0))))
        last = int(mpmath.sqrt(2 * needed / (1 + min(k * r, 0))) / step)
        root = mpmath.sqrt(r / 2)

        def value(x):
            phi = mpmath.erf(root * x) / 2
            # The points x and -x together; with an imaginary root the two are conjugate.
            both = (0.5 + phi) ** k + (0.5 - phi) ** k
            return both.real * mpmath.npdf(x)

        return step * (value(0) / 2 + sum(value(i * step) for i in range(1, last + 1)))
