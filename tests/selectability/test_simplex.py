"""The proof in float64 that a key lies inside a simplex, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_roles.selectability.boundary import _solve, surely_inside


def smallest_coordinate(point, corners):
    """Exactly: the smallest barycentric coordinate of the point; None where the corners span no simplex."""
    rows = [
        [Fraction(float(corner[c])) for corner in corners] + [Fraction(float(point[c]))]
        for c in range(len(point))
    ]
    solution = _solve([*rows, [Fraction(1)] * (len(corners) + 1)])
    return None if solution is None else min(solution)


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
    weights = rng.dirichlet(np.ones(d), 300)
    points = np.einsum("kc,kcd->kd", weights, corners[:, :d])
    inwards = corners[:, d] - points
    points += inwards * rng.choice([0, 1e-16, -1e-16, 1e-14, -1e-14, 1e-11, -1e-11, 1e-3], (300, 1))
    exact = [smallest_coordinate(*pair) for pair in zip(points, corners, strict=True)]
    proved = surely_inside(points, corners)
    assert all(least is not None and least > 0 for least, said in zip(exact, proved, strict=True) if said)
    truly = np.array([least is not None and least > 0 for least in exact])
    assert truly.any() and not truly.all()


@pytest.mark.parametrize("d", [1, 3, 16, 64])
def test_points_well_inside_are_proved(d):
    rng = np.random.default_rng(d)
    corners = simplices(200, d, 1.0, rng) * 10.0 ** rng.integers(-200, 200, d)
    points = corners.mean(axis=1)
    assert surely_inside(points, corners).mean() > 0.98


@pytest.mark.parametrize("d", [2, 3, 5])
def test_points_exactly_on_a_facet_are_not_proved(d):
    """Corners and points on a lattice, where the equations hold as computed although the solution is rounded."""
    rng = np.random.default_rng(d)
    corners = 8.0 * rng.integers(-99, 100, (20_000, d + 1, d))
    weights = rng.permuted(np.r_[0.5, 0.5, np.zeros(d - 2)][None].repeat(len(corners), 0), axis=1)
    points = np.einsum("kc,kcd->kd", weights, corners[:, :d])
    assert not surely_inside(points, corners).any()
    assert surely_inside(corners.mean(axis=1), corners).mean() > 0.98


def test_what_is_proved_of_a_point_does_not_depend_on_the_others():
    """Also beside a simplex without interior, which cannot be inverted."""
    rng = np.random.default_rng(0)
    corners = simplices(40, 2, 1.0, rng)
    points = np.where(rng.random((40, 1)) < 0.5, corners.mean(axis=1), 2 * corners[:, 0] - corners[:, 1])
    corners[[0, 7]] = points[[0, 7], None]
    alone = np.concatenate([surely_inside(points[i : i + 1], corners[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(surely_inside(points, corners), alone)
    assert alone.any() and not alone[8:].all()
