"""The exact expectation against closed forms, other formulas at high precision, and simulation."""

import mpmath
import numpy as np
import pytest

from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.selectability import certify_many


def by_mpmath(n, d):
    """n (1 - P(vertex)) with the sum over m = d-1, d-3, ..., 30 digits and adaptive quadrature."""

    def g(k, r):
        root = mpmath.sqrt(r / mpmath.mpf(2))
        half = [mpmath.mpf(x) for x in (0, 1, 2, 4, 6, 8, 10, 12, 20, 60)]
        points = [-x for x in reversed(half[1:])] + half
        return mpmath.quad(
            lambda x: mpmath.re(((1 + mpmath.erf(root * x)) / 2) ** k) * mpmath.npdf(x), points
        )

    with mpmath.workdps(30):
        chance = 2 * sum(
            mpmath.binomial(n - 1, m) * g(m, -mpmath.mpf(1) / (m + 1)) * g(n - 1 - m, mpmath.mpf(1) / (m + 1))
            for m in range(d - 1, -1, -2)
        )
        return float(n * (1 - chance))


@pytest.mark.parametrize("d", [1, 2, 3, 6, 14, 200])
def test_a_simplex_has_none(d):
    for n in range(1, d + 2):
        assert expected_unselectable(n, d) == expected_unselectable(n, d, causal=True) == 0


@pytest.mark.parametrize(("n", "d"), [(0, 3), (3, 0)])
def test_nothing_is_refused(n, d):
    with pytest.raises(ValueError, match=f"n = {n}, d = {d}: expected at least 1"):
        expected_unselectable(n, d)


def test_on_a_line_the_last_key_is_inside_unless_it_is_the_first_or_last_in_order():
    """With the keys before it as rivals, key i is at an end with chance 2 / i: a harmonic sum."""
    for n in (2, 3, 10, 1000, 10**6, 10**9):
        exact = n - 2 - 2 * (mpmath.harmonic(n) - mpmath.mpf(3) / 2)
        assert expected_unselectable(n, 1, causal=True) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("n,d", [(16, 14), (60, 3), (61, 3), (1000, 8), (100_000, 5)])
def test_second_formula(n, d):
    assert expected_unselectable(n, d) == pytest.approx(by_mpmath(n, d), rel=1e-9)


@pytest.mark.parametrize("n,d", [(5, 2), (40, 3), (150, 5), (150, 12)])
def test_causal_is_the_mean_over_prefixes(n, d):
    prefixes = sum(expected_unselectable(i, d) / i for i in range(1, n + 1))
    assert expected_unselectable(n, d, causal=True) == pytest.approx(prefixes, rel=1e-11)


def test_many_dimensions_and_keys_end_in_numbers():
    """Shares rise with the number of keys and fall with the dimension, down to where nothing is left of them."""
    shares = [[expected_unselectable(n, d) / n for n in (300, 10_000, 10**7)] for d in (8, 32, 128)]
    assert (np.diff(shares, axis=1) > 0).all() and (np.diff(shares, axis=0) < 0).all()
    assert 0 < shares[2][0] < 1e-90
    assert shares[0][2] < 1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "d"), [(40, 2), (60, 5)])
def test_simulation(n, d, causal):
    keys = np.random.default_rng([3, n, d]).standard_normal((60, n, d))
    unselectable = certify_many(keys, causal=causal).count("unselectable")
    error = unselectable.std(ddof=1) / np.sqrt(len(keys))
    assert abs(unselectable.mean() - expected_unselectable(n, d, causal)) < 4 * error
