"""LayerNorm as h(g(f(x))): projection, scaling, gain and bias, against torch's own and against the geometry.

The essay's claims: f is the orthogonal projection on the hyperplane U orthogonal to the ones vector; g brings it to
a sphere of radius sqrt(n) in U, of dimension n - 2; h makes that sphere an ellipsoid around the bias. RMSNorm is g
and a gain on the full (n - 1)-sphere. The essay adds eps to the standard deviation, torch to the variance.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from layernorm_roles import store
from layernorm_roles.norms import affine, project, scale, scale_outside
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Geometry


class Ellipsoid(NamedTuple):
    """The image sqrt(n) diag(a) (S ∩ U) of the unit sphere in U; without projection, of the whole unit sphere."""

    axes: Float[Tensor, " m"]
    """lengths of the semi-axes, falling; m = n - 1 in U, n without projection"""
    directions: Float[Tensor, "m n"]
    """unit vectors along the axes, one a row"""
    preimages: Float[Tensor, "m n"]
    """unit vectors that the normalisation sends to the ends of the axes (before the bias), one a row"""


def ellipsoid(gain: Float[Tensor, " n"], projects: bool) -> Ellipsoid:
    """Axes of the outputs of LayerNorm (or RMSNorm): the singular values of diag(a) restricted to U, times sqrt(n).

    diag(a) P has one singular value more than the ellipsoid has axes, the 0 of the ones vector. Error: that of a
    float64 SVD, a few 1e-16 of the longest axis.
    """
    n = len(gain)
    eye = torch.eye(n, dtype=gain.dtype)
    left, values, right = torch.linalg.svd(gain[:, None] * (project(eye) if projects else eye))
    m = n - 1 if projects else n
    return Ellipsoid(n**0.5 * values[:m], left.T[:m], right[:m])


def inputs(
    rng: np.random.Generator, samples: int, n: int, norm: float, offset: float
) -> Float[Tensor, "samples n"]:
    """Gaussian directions of length `norm`, plus `offset` times that length along the ones vector (float64)."""
    x = rng.standard_normal((samples, n))
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    return torch.from_numpy(x + offset * norm / np.sqrt(n))


def write(settings: Geometry, seed: int, out: str | Path, out_cloud: str | Path) -> None:
    """Write the tables geometry and geometry_cloud to the files `out` and `out_cloud`."""
    plain = {**settings.model_dump(mode="json"), "seed": seed}
    store.write(measure(settings, seed), "geometry", out, provenance(plain, "cpu", Stream.GEOMETRY))
    about_cloud = provenance(plain, "cpu", Stream.GEOMETRY_CLOUD)
    store.write(cloud(settings, seed), "geometry_cloud", out_cloud, about_cloud)


def measure(settings: Geometry, seed: int) -> pd.DataFrame:
    """Table `geometry`: equality with torch in every precision, and the shape of the outputs in float64.

    `seed` is that of the gains, biases and inputs.
    """
    rows = []
    for n, norm in product(settings.dimensions, ("layernorm", "rmsnorm")):
        named, rng = {"norm": norm, "n": n}, generator(Stream.GEOMETRY, seed, n)
        gain = torch.from_numpy(np.exp(0.5 * rng.standard_normal(n)))
        bias = torch.from_numpy(rng.standard_normal(n)) * (norm == "layernorm")
        if n <= settings.axes_up_to:
            exact = {"dtype": "float64", "eps_placement": None, "eps": 0.0, "input_norm": None, "offset": 0.0}
            for quantity, value in _shape(norm, gain, bias, rng):
                rows.append({**named, **exact, "quantity": quantity, "value": value})
        for length, offset in product(settings.input_norms, settings.offsets):
            x = inputs(rng, settings.samples, n, length, offset)
            for dtype in settings.dtypes:
                setting = {**named, "dtype": dtype, "input_norm": length, "offset": offset}
                found = _precision(norm, x.to(getattr(torch, dtype)), gain, bias, settings.eps)
                for case, quantity, value in found:
                    rows.append({**setting, **case, "quantity": quantity, "value": value})
    return pd.DataFrame(rows)


def _precision(
    norm: str, x: Tensor, gain: Tensor, bias: Tensor, epsilons: tuple[float, ...]
) -> Iterator[tuple[dict[str, Any], str, float]]:
    """h(g(f(x))) in the dtype of x beside torch's norm in that dtype, and beside the formula in float64."""
    n = x.shape[-1]
    gain, bias = gain.to(x.dtype), bias.to(x.dtype)
    centred = project(x) if norm == "layernorm" else x
    for eps in epsilons:
        if norm == "layernorm":
            theirs = functional.layer_norm(x, (n,), gain, bias, eps)
        else:
            theirs = functional.rms_norm(x, (n,), gain, eps)
        for placement, g in (("inside", scale), ("outside", scale_outside)):
            case = {"eps_placement": placement, "eps": eps}
            sphere = g(centred, eps)
            ours = affine(sphere, gain, bias)
            yield case, "difference_from_torch", _largest(ours.double() - theirs.double())
            if x.dtype != torch.float64:  # float64 on the dtype's own inputs: only the arithmetic differs
                wide = x.double()
                wide = g(project(wide) if norm == "layernorm" else wide, eps)
                exact = affine(wide, gain.double(), bias.double())
                yield case, "error", _largest(ours.double() - exact)
                if placement == "inside":
                    yield case, "error_of_torch", _largest(theirs.double() - exact)
            yield case, "not_finite", float((~ours.isfinite()).any(dim=-1).double().mean())
            radius = (sphere.double().norm(dim=-1) / n**0.5).nan_to_num(nan=torch.inf, posinf=torch.inf)
            yield case, "radius_mean", float(radius.mean())
            yield case, "radius_deviation", _largest(radius - 1)
            if norm == "layernorm":
                yield case, "distance_from_hyperplane", _largest(sphere.double().sum(dim=-1) / n**0.5)


def _largest(x: Tensor) -> float:
    """Largest magnitude; infinite where anything is not finite."""
    return float(x.abs().nan_to_num(nan=torch.inf, posinf=torch.inf).max())


def _shape(norm: str, gain: Tensor, bias: Tensor, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Rank, centre and axes of the outputs, each found from outputs alone and set against the prediction."""
    n = len(gain)
    projects = norm == "layernorm"

    def normalise(x: Tensor) -> Tensor:
        return affine(scale(project(x) if projects else x), gain, bias)

    predicted = ellipsoid(gain, projects)
    ends, opposite = normalise(predicted.preimages), normalise(-predicted.preimages)
    centre = (ends + opposite) / 2
    arms = (ends - opposite) / 2
    outputs = normalise(torch.from_numpy(rng.standard_normal((n + 8, n)))) - bias
    yield "rank", float(torch.linalg.matrix_rank(outputs))
    yield "centre_deviation", _largest(centre - bias)
    yield "axes_deviation", _largest(arms.norm(dim=-1) / predicted.axes - 1)
    # The arms of an ellipsoid's axes are orthogonal; those of any other conjugate diameters are not.
    units = arms / arms.norm(dim=-1, keepdim=True)
    yield "axes_cosine", _largest(units @ units.T - torch.eye(len(units), dtype=units.dtype))
    on_axes = (outputs @ predicted.directions.T / predicted.axes).square().sum(dim=-1)
    yield "ellipsoid_deviation", _largest(on_axes - 1)
    yield "axis_ratio", float(predicted.axes[0] / predicted.axes[-1])


def cloud(settings: Geometry, seed: int) -> pd.DataFrame:
    """Table `geometry_cloud`: a cloud of points in three dimensions before and after each step of LayerNorm.

    The steps are the projection f, the scaling g, and the gain and bias h; RMSNorm has g and a gain.
    """
    rng = generator(Stream.GEOMETRY_CLOUD, seed)
    # Off the origin and stretched, so that each step changes it visibly.
    x = torch.from_numpy(rng.standard_normal((settings.cloud, 3)) * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4])
    gain = torch.tensor(settings.cloud_gain, dtype=x.dtype)
    bias = torch.tensor(settings.cloud_bias, dtype=x.dtype)
    stages = {
        ("layernorm", "x"): x,
        ("layernorm", "f"): project(x),
        ("layernorm", "g"): scale(project(x)),
        ("layernorm", "h"): affine(scale(project(x)), gain, bias),
        ("rmsnorm", "x"): x,
        ("rmsnorm", "g"): scale(x),
        ("rmsnorm", "h"): affine(scale(x), gain, torch.zeros_like(bias)),
    }
    frames = []
    for (norm, stage), points in stages.items():
        frame = pd.DataFrame(points.numpy(), columns=["x1", "x2", "x3"])
        frames.append(frame.assign(norm=norm, stage=stage, point=range(len(points))))
    return pd.concat(frames, ignore_index=True)
