from itertools import pairwise, product

import numpy as np
import pytest
import torch
from default_settings import example
from scipy.optimize import brentq

from layernorm_roles.norms import affine, scale
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Geometry
from layernorm_roles.statements import geometry

SETTINGS = example(Geometry, dimensions=[2, 3, 16], input_norms=[1e-6, 1.0, 1e4])


@pytest.fixture(scope="module")
def table():
    return geometry.measure(SETTINGS, seed=0)


def test_axes_solve_the_secular_equation():
    """Squared axes over n are the stationary values of sum a_i^2 x_i^2 on S ∩ U: roots of sum 1 / (a_i^2 - s) = 0.

    One root lies between any two neighbouring a_i^2, which is where it is searched: no SVD.
    """
    gain = torch.tensor([0.3, 1.7, -0.9, 2.4, 1.1], dtype=torch.float64)
    squares = np.sort(gain.numpy() ** 2)
    between = [(low + 1e-12, high - 1e-12) for low, high in pairwise(squares)]
    roots = [brentq(lambda s: (1 / (squares - s)).sum(), *ends, xtol=1e-15) for ends in between]
    expected = np.sqrt(len(gain) * np.array(roots[::-1]))
    assert np.allclose(geometry.ellipsoid(gain, projects=True)[0], expected, rtol=1e-9)


def test_table_shape_quantities(table):
    shape = table[table.input_norm.isna()]
    for quantity in ("axes_deviation", "axes_cosine", "centre_deviation"):
        assert shape[shape.quantity == quantity].value.max() < 1e-12, quantity
    rank = shape[shape.quantity == "rank"].set_index(["norm", "n"]).value
    assert all(rank["layernorm", n] == n - 1 and rank["rmsnorm", n] == n for n in SETTINGS.dimensions)


def test_every_quantity_of_the_arithmetic_is_what_plain_formulas_give(table):
    """From the draws of each size: torch's LayerNorm, and h(g(f(x))) in numpy with eps inside the root and outside."""
    expected = {}
    for n in SETTINGS.dimensions:
        rng = generator(Stream.GEOMETRY, 0, n)
        gain, bias = np.exp(0.5 * rng.standard_normal(n)), rng.standard_normal(n)
        rng.standard_normal((n + 8, n))  # the outputs that the shape is found from
        for length, eps in product(SETTINGS.input_norms, (1e-5, 1e-12)):
            x = rng.standard_normal((64, n))
            x = length * (x / np.linalg.norm(x, axis=1, keepdims=True))
            given = [torch.from_numpy(part) for part in (x, gain, bias)]
            theirs = torch.nn.functional.layer_norm(given[0], (n,), *given[1:], eps=eps).numpy()
            x = x - x.mean(axis=1, keepdims=True)
            square = np.mean(x**2, axis=1, keepdims=True)
            for place, divisor in (("inside", np.sqrt(square + eps)), ("outside", np.sqrt(square) + eps)):
                at = ("layernorm", n, place, eps, length)
                difference = np.abs(x / divisor * gain + bias - theirs).max()
                expected[*at, "difference_from_torch"] = difference
                expected[*at, "radius_mean"] = (np.sqrt(square) / divisor).mean()
                assert place == "outside" or difference < 1e-12
    columns = ["norm", "n", "eps_placement", "eps", "input_norm", "quantity"]
    found = table[table.input_norm.notna()].set_index(columns).value.to_dict()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-12), key


def test_the_shape_deviates_where_outputs_do(monkeypatch):
    rng = generator(Stream.GEOMETRY, 0, 16)
    gain = torch.from_numpy(np.exp(0.5 * rng.standard_normal(16)))
    shift = {"affine": lambda x, gain, bias: affine(x, gain, bias + 0.25)}
    for patches, name, known in ((shift, "centre", 0.25), ({"scale": lambda x: 2 * scale(x)}, "axes", 1)):
        with monkeypatch.context() as patch:
            for function, changed in patches.items():
                patch.setattr(geometry, function, changed)
            found = dict(geometry._shape("layernorm", gain, torch.zeros(16, dtype=gain.dtype), rng))
        assert found[f"{name}_deviation"] == pytest.approx(known)


def test_cloud_stages():
    drawn = generator(Stream.GEOMETRY_CLOUD, 3).standard_normal((400, 3))
    x = drawn * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4]
    known = {("layernorm", "x"): x, ("rmsnorm", "x"): x}
    known["layernorm", "f"] = x - x.mean(axis=1, keepdims=True)
    for norm, before in (("layernorm", "f"), ("rmsnorm", "x")):
        y = known[norm, before]
        known[norm, "g"] = y / np.sqrt((y**2).mean(axis=1, keepdims=True))
        known[norm, "h"] = known[norm, "g"] * (1.4, 0.9, 0.5)
    known["layernorm", "h"] = known["layernorm", "h"] + (0.6, -0.3, 0.8)
    cloud = geometry.cloud(seed=3)
    assert cloud.groupby(["norm", "stage"]).ngroups == len(known)
    for key, points in known.items():
        found = cloud.set_index(["norm", "stage"]).loc[[key]]
        assert found.point.tolist() == list(range(400))
        np.testing.assert_allclose(found[["x1", "x2", "x3"]], points)
