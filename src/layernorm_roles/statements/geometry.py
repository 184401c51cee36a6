"""Tests of an essay on LayerNorm as h(g(f(x))): a projection f, a scaling g, and h, which applies gain and bias.

The essay's claims, for n dimensions: f is the orthogonal projection on the hyperplane U orthogonal to the ones vector;
g brings it to a sphere of radius sqrt(n) in U, of dimension n - 2; h makes that sphere an ellipsoid around the bias.
RMSNorm is g and a gain on the full (n - 1)-sphere. The essay adds eps to the standard deviation, torch to the variance.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from layernorm_roles.norms import affine, project, scale, scale_outside
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Geometry

EPS = (1e-5, 1e-12)
"""LayerNorm's eps: torch's default, and the example of the essay."""
SAMPLES = 64
"""Random inputs, of each dimension n and length, on which LayerNorm is compared with torch's."""
AXES_UP_TO = 512
"""Largest n for which the ellipsoid and the rank of the outputs are computed."""
CLOUD, CLOUD_GAIN, CLOUD_BIAS = 400, (1.4, 0.9, 0.5), (0.6, -0.3, 0.8)
"""Points in table geometry_cloud, and the gain and bias of its norms."""


def measure(settings: Geometry, seed: int) -> pd.DataFrame:
    """Table geometry: how the norms' outputs differ from predicted ellipsoids (eps 0), and LayerNorm's from torch's.

    radius_mean is the mean length of LayerNorm's output before gain and bias, divided by sqrt(n).
    """
    rows = []
    for n, norm in product(settings.dimensions, ("layernorm", "rmsnorm")):
        named, rng = {"norm": norm, "n": n}, generator(Stream.GEOMETRY, seed, n)
        gain = torch.from_numpy(np.exp(0.5 * rng.standard_normal(n)))
        bias = torch.from_numpy(rng.standard_normal(n)) * (norm == "layernorm")
        if n <= AXES_UP_TO:
            exact = {"eps_placement": None, "eps": 0.0, "input_norm": None}
            for quantity, value in _shape(norm, gain, bias, rng):
                rows.append({**named, **exact, "quantity": quantity, "value": value})
        for length, eps in product(settings.input_norms if norm == "layernorm" else (), EPS):
            x = rng.standard_normal((SAMPLES, n))
            x = torch.from_numpy(length * x / np.linalg.norm(x, axis=1, keepdims=True))
            for placement, g in (("inside", scale), ("outside", scale_outside)):
                setting = {**named, "input_norm": length, "eps": eps, "eps_placement": placement}
                sphere = g(project(x), eps)
                theirs = functional.layer_norm(x, (n,), gain, bias, eps)
                found = {"difference_from_torch": _largest(affine(sphere, gain, bias) - theirs)}
                found["radius_mean"] = float(sphere.norm(dim=-1).mean() / n**0.5)
                rows += [{**setting, "quantity": name, "value": value} for name, value in found.items()]
    return pd.DataFrame(rows)


def _largest(x: Tensor) -> float:
    """The largest magnitude in `x`; infinite if an entry is not finite."""
    return float(x.abs().nan_to_num(nan=torch.inf, posinf=torch.inf).max())


def _shape(norm: str, gain: Tensor, bias: Tensor, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield (quantity, value): the rank of a norm's outputs, and each deviation from the predicted ellipsoid."""
    n, projects = len(gain), norm == "layernorm"

    def normalise(x: Tensor) -> Tensor:
        return affine(scale(project(x) if projects else x), gain, bias)

    # The outputs without bias are sqrt(n) diag(gain) u, for unit vectors u, after a projection orthogonal to the ones
    # vector: diag(gain) P has one singular value more than there are axes, the 0 of the ones vector.
    eye = torch.eye(n, dtype=gain.dtype)
    _, lengths, right = torch.linalg.svd(gain[:, None] * (project(eye) if projects else eye))
    axes, preimages = (n**0.5 * lengths)[: n - projects], right[: n - projects]
    ends, opposite = normalise(preimages), normalise(-preimages)
    arms = (ends - opposite) / 2
    outputs = normalise(torch.from_numpy(rng.standard_normal((n + 8, n)))) - bias
    yield "rank", float(torch.linalg.matrix_rank(outputs))
    yield "centre_deviation", _largest((ends + opposite) / 2 - bias)
    yield "axes_deviation", _largest(arms.norm(dim=-1) / axes - 1)
    # The arms of an ellipsoid's axes are orthogonal; those of any other conjugate diameters are not.
    units = arms / arms.norm(dim=-1, keepdim=True)
    yield "axes_cosine", _largest(units @ units.T - torch.eye(len(units), dtype=units.dtype))


def cloud(seed: int) -> pd.DataFrame:
    """Table geometry_cloud: random points in three dimensions after each step of LayerNorm and RMSNorm."""
    rng = generator(Stream.GEOMETRY_CLOUD, seed)
    # Off the origin and stretched, so that each step changes it visibly.
    x = torch.from_numpy(rng.standard_normal((CLOUD, 3)) * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4])
    gain, bias = (torch.tensor(values, dtype=x.dtype) for values in (CLOUD_GAIN, CLOUD_BIAS))
    f, g, whole = project(x), scale(project(x)), scale(x)
    stages = {("layernorm", "x"): x, ("layernorm", "f"): f, ("layernorm", "g"): g}
    stages |= {("layernorm", "h"): affine(g, gain, bias), ("rmsnorm", "x"): x}
    stages |= {("rmsnorm", "g"): whole, ("rmsnorm", "h"): whole * gain}
    frames = []
    for (norm, stage), found in stages.items():
        frame = pd.DataFrame(found.numpy(), columns=["x1", "x2", "x3"])
        frames.append(frame.assign(norm=norm, stage=stage, point=range(CLOUD)))
    return pd.concat(frames, ignore_index=True)
