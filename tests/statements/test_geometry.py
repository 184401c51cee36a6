from itertools import pairwise

import numpy as np
import pytest
import torch
from default_settings import example
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from layernorm_roles.norms import scale, scale_outside
from layernorm_roles.settings.statements import Geometry
from layernorm_roles.statements import geometry

INPUTS = {"input_norms": [1e-6, 1.0, 1e4], "offsets": [0, 10], "eps": [1e-5, 1e-12], "samples": 8}
SIZES = {"dimensions": [2, 3, 16], "dtypes": ["float16", "bfloat16", "float32", "float64"], "axes_up_to": 16}
CLOUD = {"cloud": 20, "cloud_gain": [1.4, 0.9, 0.5], "cloud_bias": [0.6, -0.3, 0.8]}
SETTINGS = example(Geometry, **INPUTS, **SIZES, **CLOUD)


@pytest.fixture(scope="module")
def table():
    return geometry.measure(SETTINGS, seed=0)


def test_axes_solve_the_secular_equation():
    """Squared axes over n are the stationary values of sum a_i^2 x_i^2 on S ∩ U: roots of sum 1 / (a_i^2 - s) = 0.

    One root lies between any two neighbouring a_i^2, which is where it is searched: no SVD.
    """
    gain = torch.tensor([0.3, 1.7, -0.9, 2.4, 1.1], dtype=torch.float64)
    squares = np.sort(gain.numpy() ** 2)
    margin = 1e-12
    roots = [
        brentq(lambda s: (1 / (squares - s)).sum(), low + margin, high - margin, xtol=1e-15)
        for low, high in pairwise(squares)
    ]
    expected = np.sqrt(len(gain) * np.array(roots[::-1]))
    assert np.allclose(geometry.ellipsoid(gain, projects=True).axes, expected, rtol=1e-9)


@given(st.floats(1e-6, 1e3), st.sampled_from([1e-5, 1e-12]))
@settings(max_examples=40)
def test_radius_under_eps(size, eps):
    x = torch.tensor([3.0, -1.0, -2.0], dtype=torch.float64)
    x = x * size / x.square().mean().sqrt()
    assert np.isclose(scale(x, eps).square().mean().sqrt(), 1 / np.sqrt(1 + eps / size**2), rtol=1e-12)
    assert np.isclose(scale_outside(x, eps).square().mean().sqrt(), 1 / (1 + eps / size), rtol=1e-12)


def test_table_shape_quantities(table):
    shape = table[table.input_norm.isna()]
    for quantity in ("axes_deviation", "axes_cosine", "centre_deviation", "ellipsoid_deviation"):
        assert shape[shape.quantity == quantity].value.max() < 1e-12, quantity
    rank = shape[shape.quantity == "rank"].set_index(["norm", "n"]).value
    for n in SETTINGS.dimensions:
        assert rank["layernorm", n] == n - 1
        assert rank["rmsnorm", n] == n


def test_table_against_torch(table):
    """Every precision agrees with torch to a few units of rounding, for inputs whose mean is near the origin.

    With two or three components f(x) can nearly vanish, and half precision then rounds all of it: 16 are enough.
    """
    usual = table[(table.eps_placement == "inside") & (table.offset == 0) & (table.input_norm == 1.0)]
    usual = usual[usual.n == 16]
    difference = usual[usual.quantity == "difference_from_torch"].groupby("dtype").value.max()
    for dtype, worst in difference.items():
        assert worst < 64 * torch.finfo(getattr(torch, dtype)).eps, dtype


def test_cloud_stages():
    cloud = geometry.cloud(SETTINGS, seed=0)
    points = {key: part[["x1", "x2", "x3"]].to_numpy() for key, part in cloud.groupby(["norm", "stage"])}
    assert np.allclose(points["layernorm", "f"].sum(axis=1), 0)
    assert np.allclose(np.linalg.norm(points["rmsnorm", "g"], axis=1), np.sqrt(3))
    undone = (points["layernorm", "h"] - SETTINGS.cloud_bias) / SETTINGS.cloud_gain
    assert np.allclose(undone, points["layernorm", "g"])


def test_inputs_have_the_asked_length_and_offset():
    """The offset is along the ones vector, in units of the length of the rest."""
    centred, moved = (geometry.inputs(np.random.default_rng(0), 6, 5, 3.0, offset) for offset in (0.0, 10.0))
    assert torch.allclose(centred.norm(dim=-1), torch.full((6,), 3.0, dtype=centred.dtype))
    assert torch.allclose(moved - centred, torch.full((6, 5), 10.0 * 3.0 / np.sqrt(5), dtype=centred.dtype))
