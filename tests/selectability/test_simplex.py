"""The proof in float64 that a key lies inside a simplex, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_roles.selectability.boundary import _solve, surely_inside


def smallest_coordinate(point, corners):
    """Exactly: the smallest barycentric coordinate of the point; -1 where the corners span no simplex."""
    rows = [[Fraction(float(x)) for x in (*corners[:, c], point[c])] for c in range(len(point))]
    solution = _solve([*rows, [Fraction(1)] * (len(corners) + 1)])
    return -1 if solution is None else min(solution)


def simplices(number, d, thin, rng):
    """Corners (number, d + 1, d) that differ by `thin` in their last column."""
    corners = rng.standard_normal((number, d + 1, d))
    corners[:, :, -1] *= thin
    return corners + rng.standard_normal((number, 1, d))


@pytest.mark.parametrize("thin", [1.0, 1e-6, 1e-10, 1e-13])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_what_is_proved_is_true(d, thin):
    """Points at, and a few last digits beside, the middle of a facet, where half of them are outside."""
    rng = np.random.default_rng([d, int(1e13 * thin)])
    corners = simplices(300, d, thin, rng)
    points = np.einsum("kc,kcd->kd", rng.dirichlet(np.ones(d), 300), corners[:, :d])
    beside = [0, 1e-3, *(sign * 10.0**-k for sign in (1, -1) for k in (16, 14, 11))]
    points += (corners[:, d] - points) * rng.choice(beside, (300, 1))
    truly = np.array([smallest_coordinate(*pair) > 0 for pair in zip(points, corners, strict=True)])
    assert truly[surely_inside(points, corners)].all() and truly.any() and not truly.all()


@pytest.mark.parametrize("d", [2, 3, 16, 64])
def test_points_well_inside_are_proved_and_those_exactly_on_a_facet_are_not(d):
    """On a lattice the equations hold as computed although the solution is rounded."""
    rng = np.random.default_rng(d)
    corners = simplices(200, d, 1.0, rng) * 10.0 ** rng.integers(-200, 200, d)
    assert surely_inside(corners.mean(axis=1), corners).mean() > 0.98
    corners = 8.0 * rng.integers(-99, 100, (20_000 if d < 9 else 200, d + 1, d))
    weights = rng.permuted(np.r_[0.5, 0.5, np.zeros(d - 2)][None].repeat(len(corners), 0), axis=1)
    assert not surely_inside(np.einsum("kc,kcd->kd", weights, corners[:, :d]), corners).any()
