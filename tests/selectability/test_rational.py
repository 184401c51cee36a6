"""Exact membership in a convex hull, where the answer is known by hand."""

import numpy as np
import pytest

from layernorm_roles.selectability.boundary import in_hull_exactly

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
SUPPORT, WEIGHTS = np.arange(3), np.full(3, 1 / 3)


def in_hull(point, support=SUPPORT, weights=WEIGHTS):
    return in_hull_exactly(np.r_[CORNERS, [point]], 3, support, weights, biased=False)


@pytest.mark.parametrize("point", [(0.25, 0.25), (0.5, 0.5), (0.5, 0.0), (1.0, 0.0)])
def test_points_of_the_triangle_and_its_boundary_are_in_the_hull(point):
    assert in_hull(point)


@pytest.mark.parametrize("point", [(1.0, 1.0), (0.5, np.nextafter(0.5, 1)), (-1e-300, 0.0)])
def test_a_combination_with_a_negative_weight_is_none(point):
    """The weights that give the point exactly add up to 1, but one of them is negative."""
    assert not in_hull(point)


def test_the_given_weights_only_choose_the_support():
    assert in_hull((0.5, 0.5), weights=np.array([0.0, 0.1, 0.9]))
    assert not in_hull((0.25, 0.25), weights=np.array([0.0, 0.5, 0.5]))
    assert not in_hull((0.5, 0.5), weights=np.zeros(3))


def test_the_mean_of_the_bias_has_to_reach_that_of_the_key():
    for bias, expected in ((0.25, True), (0.2, True), (0.26, False)):
        points = np.array([[0.0, 0.0], [1.0, 0.5], [0.5, bias]])
        assert in_hull_exactly(points, 2, np.arange(2), np.full(2, 0.5), biased=True) == expected


def test_dependent_supports_and_many_dimensions_are_left_undecided():
    line = np.array([[0.0], [1.0], [2.0], [0.5]])
    assert not in_hull_exactly(line, 3, np.arange(3), np.full(3, 1 / 3), biased=False)
    wide = np.zeros((3, 17))
    assert not in_hull_exactly(wide, 2, np.arange(2), np.full(2, 0.5), biased=False)
