from itertools import pairwise, product

import numpy as np
import pytest
import torch
from default_settings import example
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from layernorm_roles.norms import affine, project, scale, scale_outside
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Geometry
from layernorm_roles.statements import geometry

SETTINGS = example(Geometry, dimensions=[2, 3, 16], input_norms=[1e-6, 1.0, 1e4], samples=8, cloud=20)


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
    assert np.allclose(geometry.ellipsoid(gain, projects=True)[0], expected, rtol=1e-9)


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


@np.errstate(invalid="ignore")
def test_every_quantity_of_the_arithmetic_is_what_plain_formulas_give(table):
    """From the draws of each size: torch's norms in the dtype and in float64, and the error of each step by itself.

    Among the inputs are some that overflow in half precision, in some of the rows.
    """
    expected = {}
    for n, kind in product(SETTINGS.dimensions, ("layernorm", "rmsnorm")):
        rng, whole = generator(Stream.GEOMETRY, 0, n), kind == "rmsnorm"
        gain, bias = np.exp(0.5 * rng.standard_normal(n)), rng.standard_normal(n) * (not whole)
        rng.standard_normal((n + 8, n))  # the outputs that the shape is found from
        g, b = torch.from_numpy(gain), torch.from_numpy(bias)
        for length, offset in product(SETTINGS.input_norms, geometry.OFFSETS):
            x = rng.standard_normal((8, n))
            x = length * (x / np.linalg.norm(x, axis=1, keepdims=True) + offset / n**0.5)
            for dtype, eps, place in product(geometry.DTYPES, geometry.EPS, ("inside", "outside")):
                x_t, g_t, b_t = (part.to(getattr(torch, dtype)) for part in (torch.from_numpy(x), g, b))
                norm = torch.nn.functional.rms_norm if whole else torch.nn.functional.layer_norm
                theirs = norm(x_t, (n,), g_t, *(() if whole else (b_t,)), eps=eps).double().numpy()
                sphere = x_t if whole else x_t - x_t.mean(dim=-1, keepdim=True)
                sphere = (scale if place == "inside" else scale_outside)(sphere, eps)
                ours, sphere = (sphere * g_t + b_t).double().numpy(), sphere.double().numpy()
                wide = x_t.double().numpy()
                wide = wide if whole else wide - wide.mean(axis=1, keepdims=True)
                square = np.mean(wide**2, axis=1, keepdims=True)
                divisor = np.sqrt(square + eps) if place == "inside" else np.sqrt(square) + eps
                exact = wide / divisor * g_t.double().numpy() + b_t.double().numpy()
                radius = np.sqrt(np.mean(sphere**2, axis=1))
                at = (kind, n, dtype, place, eps, length, offset)
                values = {"difference_from_torch": ours - theirs, "radius_deviation": radius - 1}
                if dtype != "float64":
                    values["error"] = ours - exact
                    if place == "inside":
                        values["error_of_torch"] = theirs - exact
                if not whole:
                    values["distance_from_hyperplane"] = sphere @ np.full(n, n**-0.5)
                values = {name: np.abs(value).max() for name, value in values.items()}
                values |= {
                    "not_finite": (~np.isfinite(ours)).any(axis=1).mean(),
                    "radius_mean": radius.mean(),
                }
                expected |= {(*at, name): value for name, value in values.items()}
    columns = ["norm", "n", "dtype", "eps_placement", "eps", "input_norm", "offset", "quantity"]
    found = table[table.input_norm.notna()].set_index(columns).value.to_dict()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        value = value if np.isfinite(value) else np.inf
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-12), key
    assert any(key[-1] == "not_finite" and 0 < share < 1 for key, share in found.items())


def test_the_shape_deviates_where_outputs_do_and_the_axes_are_those_of_the_gain(table, monkeypatch):
    """A bias of a quarter too much, and a sphere twice as large, are seen; a gain has its largest over its smallest."""
    for n in SETTINGS.dimensions:
        rng = generator(Stream.GEOMETRY, 0, n)
        gain = torch.from_numpy(np.exp(0.5 * rng.standard_normal(n)))
        axes = np.linalg.eigvalsh(project(project(torch.diag(gain**2)).T).numpy())[1:] ** 0.5
        ratios = table[(table.quantity == "axis_ratio") & (table.n == n)].set_index("norm").value
        assert ratios["rmsnorm"] == pytest.approx((gain.max() / gain.min()).item())
        assert ratios["layernorm"] == pytest.approx(axes[-1] / axes[0])
    shift = {"affine": lambda x, gain, bias: affine(x, gain, bias + 0.25)}
    for patches, name, known in ((shift, "centre", 0.25), ({"scale": lambda x: 2 * scale(x)}, "axes", 1)):
        with monkeypatch.context() as patch:
            for function, changed in patches.items():
                patch.setattr(geometry, function, changed)
            found = dict(geometry._shape("layernorm", gain, torch.zeros(16, dtype=gain.dtype), rng))
        assert found[f"{name}_deviation"] == pytest.approx(known) and found["ellipsoid_deviation"] > 0.01


def test_cloud_stages():
    drawn = generator(Stream.GEOMETRY_CLOUD, 3).standard_normal((20, 3))
    x = drawn * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4]
    known = {
        ("layernorm", "x"): x,
        ("rmsnorm", "x"): x,
        ("layernorm", "f"): x - x.mean(axis=1, keepdims=True),
    }
    for norm, before in (("layernorm", "f"), ("rmsnorm", "x")):
        y = known[norm, before]
        known[norm, "g"] = y / np.sqrt((y**2).mean(axis=1, keepdims=True))
        known[norm, "h"] = known[norm, "g"] * (1.4, 0.9, 0.5)
    known["layernorm", "h"] = known["layernorm", "h"] + (0.6, -0.3, 0.8)
    cloud = geometry.cloud(20, seed=3)
    assert cloud.groupby(["norm", "stage"]).ngroups == len(known)
    for key, points in known.items():
        found = cloud.set_index(["norm", "stage"]).loc[[key]]
        assert found.point.tolist() == list(range(20))
        np.testing.assert_allclose(found[["x1", "x2", "x3"]], points)
