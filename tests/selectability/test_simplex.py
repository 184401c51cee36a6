"""The proofs that a key lies inside a simplex, in float64, and in the hull of others, in rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from layernorm_roles.selectability.boundary import _solve, in_hull_exactly, surely_inside
from layernorm_roles.selectability.corral import add, new_corral


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


def test_what_is_proved_of_a_point_does_not_depend_on_the_others():
    """Also beside a simplex without interior, which cannot be inverted."""
    rng = np.random.default_rng(0)
    corners = simplices(40, 2, 1.0, rng)
    points = np.where(rng.random((40, 1)) < 0.5, corners.mean(axis=1), 2 * corners[:, 0] - corners[:, 1])
    corners[[0, 7]] = points[[0, 7], None]
    alone = np.concatenate([surely_inside(points[i : i + 1], corners[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(surely_inside(points, corners), alone)
    assert alone.any() and not alone[8:].all()


CORNERS, THIRDS, WIDE = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], [1 / 3] * 3, [(0.0,) * 17] * 2


@pytest.mark.parametrize(
    ("corners", "point", "weights", "inside"),
    [
        *((CORNERS, point, THIRDS, True) for point in [(0.25, 0.25), (0.5, 0.5), (1.0, 0.0)]),
        # The weights that give the point exactly add up to 1, but one of them is negative.
        *(
            (CORNERS, point, THIRDS, False)
            for point in [(1.0, 1.0), (0.5, np.nextafter(0.5, 1)), (-1e-300, 0.0)]
        ),
        # The given weights only choose the support.
        (CORNERS, (0.5, 0.5), [0.0, 0.1, 0.9], True),
        (CORNERS, (0.25, 0.25), [0.0, 0.5, 0.5], False),
        (CORNERS, (0.5, 0.5), [0.0, 0.0, 0.0], False),
        # Dependent supports and many dimensions are left undecided.
        ([(0.0,), (1.0,), (2.0,)], (0.5,), THIRDS, False),
        (WIDE, WIDE[0], [0.5, 0.5], False),
    ],
)
def test_a_point_is_exactly_in_the_hull_of_its_support(corners, point, weights, inside):
    points, n = np.array([*corners, point]), len(corners)
    assert in_hull_exactly(points, n, np.arange(n), np.array(weights), biased=False) == inside


def test_a_point_in_the_affine_hull_of_the_atoms_joins_no_corral():
    """Whatever rounding leaves between the two."""
    for points in np.random.default_rng(0).standard_normal((50, 4, 5)):
        points[2] = 0.3 * points[0] + 0.7 * points[1]
        corral, target = new_corral(5), np.zeros(5)
        joined = [add(corral, m, name, points, target, 1.0) for m, name in ((0, 0), (1, 1), (2, 2), (2, 3))]
        assert joined == [True, True, False, True]
