"""Exact membership in a convex hull, where the answer is known by hand."""

import numpy as np
import pytest

from layernorm_roles.selectability.boundary import in_hull_exactly

CORNERS, THIRDS = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)], [1 / 3] * 3
LINE, WIDE = [(0.0,), (1.0,), (2.0,)], [(0.0,) * 17] * 2


@pytest.mark.parametrize(
    ("corners", "point", "weights", "inside"),
    [
        *((CORNERS, point, THIRDS, True) for point in [(0.25, 0.25), (0.5, 0.5), (0.5, 0.0), (1.0, 0.0)]),
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
        (LINE, (0.5,), THIRDS, False),
        (WIDE, WIDE[0], [0.5, 0.5], False),
    ],
)
def test_a_point_in_the_hull_of_its_support(corners, point, weights, inside):
    points, n = np.array([*corners, point]), len(corners)
    assert in_hull_exactly(points, n, np.arange(n), np.array(weights), biased=False) == inside


@pytest.mark.parametrize(("bias", "inside"), [(0.25, True), (0.2, True), (0.26, False)])
def test_the_mean_of_the_bias_has_to_reach_that_of_the_key(bias, inside):
    points = np.array([[0.0, 0.0], [1.0, 0.5], [0.5, bias]])
    assert in_hull_exactly(points, 2, np.arange(2), np.full(2, 0.5), biased=True) == inside
