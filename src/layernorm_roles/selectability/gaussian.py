"""How many of n Gaussian keys are unselectable, exactly: the expectation that the simulation is held against."""

from functools import cache
from math import comb, sqrt

import numpy as np
from scipy.special import ndtr, wofz

# The trapezoid rule converges faster than any power for analytic integrands that die out at both ends.
_U = np.arange(-12, 12, 1 / 16)
_DENSITY = np.exp(-(_U**2) / 2) / sqrt(2 * np.pi) / 16


def expected_unselectable(n: int, d: int) -> float:
    """The expected number of unselectable keys among n standard Gaussian keys in R^d.

    A Gaussian point set is a random projection of a regular simplex with n vertices to R^d, and the chance that a
    vertex falls inside is a sum over the simplex' faces (Affentranger and Schneider 1992; Baryshnikov and Vitale
    1994; angles as in Kabluchko and Zaporozhets 2020):

        E = n * 2 * sum over m = d+1, d+3, ... <= n-1 of C(n-1, m) * g_m(-1/(m+1)) * g_{n-1-m}(1/(m+1))

    with g_k(r) = E[Phi(sqrt(r) X)^k]: the first is the angle of an m-simplex at a vertex, the second the outer
    angle at one of its faces, and a face of dimension m > d with the vertex in it covers the vertex.
    Zero for n <= d+1, where the keys span a simplex. For n > 60 the sum over m = d-1, d-3, ... >= 0 is taken,
    which is the chance that the vertex stays one: both make 1 together, and this one needs no large m, whose inner
    angles would cancel. The error is below 1e-6 relative and 1e-9 absolute for n <= 60, and below 1e-11 n beyond.

    Raises ValueError outside of n <= 60 or d <= 16, where that accuracy is not tested.

    >>> round(expected_unselectable(20, 5), 4)
    1.4766
    """
    if n < 1 or d < 1:
        raise ValueError(f"n = {n}, d = {d}: expected at least 1")
    if n <= 60:
        return float(2 * n * sum(_term(n, m) for m in range(d + 1, n, 2)))
    if d <= 16:
        return float(n * (1 - 2 * sum(_term(n, m) for m in range(d - 1, -1, -2))))
    raise ValueError(f"n = {n}, d = {d}: the sum is accurate for n <= 60 or d <= 16")


@cache
def _term(n: int, m: int) -> float:
    return comb(n - 1, m) * _inner_angle(m) * _outer_angle(n - 1 - m, m)


@cache
def _inner_angle(m: int) -> float:
    """g_m(-1/(m+1)). Phi(iy) = exp(y^2/2) w(y/sqrt 2) / 2 with the Faddeeva function w; the exponentials cancel."""
    return sqrt(m + 1) * float(_DENSITY @ ((wofz(_U / sqrt(2)) / 2) ** m).real)


def _outer_angle(k: int, m: int) -> float:
    """g_k(1/(m+1))."""
    return float(_DENSITY @ ndtr(_U / sqrt(m + 1)) ** k)
