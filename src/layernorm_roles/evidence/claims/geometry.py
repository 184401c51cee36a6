"""What an essay says about LayerNorm as h(g(f(x))), with f a projection, g a scaling, h gain and bias."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import differences_from_torch, ellipsoids, radii
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import Outcome, Tables, Untestable, all_of, statement, true


def measured_shape(geometry: pd.DataFrame, norm: str) -> pd.DataFrame:
    """How far the outputs of `norm` are from the predicted ellipsoid; Untestable if the run lacks the norm."""
    shape = ellipsoids(geometry, norm)
    if shape.empty:
        raise Untestable(f"The run has no ellipsoid of {norm}.")
    return shape


def range_over(values: pd.Series) -> Estimate:
    """The largest value, with the range of the values in place of an interval: nothing is random."""
    return Estimate(float(values.max()), float(values.min()), float(values.max()))


def composition(tables: Tables) -> Outcome:
    """Whether h(g(f(x))) is torch's layer_norm, with outputs on an ellipsoid of dimension n - 2; RMSNorm's on n - 1."""
    differences = differences_from_torch(tables["geometry"])
    shape, control = (measured_shape(tables["geometry"], norm) for norm in ("layernorm", "rmsnorm"))
    by_n = differences[differences.dtype == "float64"].groupby("n").value.max()
    if by_n.empty:
        raise Untestable("The run compares no float64 LayerNorm with torch's.")
    deviation = shape[["axes_deviation", "axes_cosine", "centre_deviation"]].max().max()
    parts = (
        true(by_n.max() <= rules.ROUNDING),
        all_of(true(deviation <= rules.ROUNDING), true((shape["rank"] == shape.index - 1).all())),
    )
    stretched = control[["axes_deviation", "axes_cosine"]].max().max()
    isolated = true((control["rank"] == control.index).all() and stretched <= rules.ROUNDING)
    finite = differences[np.isfinite(differences.value)].groupby("dtype").value.max()
    others = [f"{finite[d]:.0e} in {d}" for d in ("float32", "bfloat16", "float16") if d in finite]
    reason = (
        f"h(g(f(x))) differs from torch's layer_norm by at most {by_n.max():.0e} in float64, n = "
        f"{by_n.index.min()} to {by_n.index.max()}; the outputs lie on the predicted ellipsoid to "
        f"{deviation:.0e} and have rank n - 1. RMSNorm's lie on the whole sphere, stretched by the gains to "
        f"{stretched:.0e}, with rank n{'' if (control['rank'] == control.index).all() else ' not always'}. Nothing is "
        "random but the inputs: low and high are the range over n."
    )
    if others:
        reason += (
            f" Where results are finite, they differ by at most {', '.join(others)}: there torch works in float32 "
            "inside, and squares in float16 overflow from 256 on."
        )
    return statement(parts, range_over(by_n), 1, reason, cause=isolated)


def radius(tables: Tables) -> Outcome:
    """Whether g scales to the radius sqrt(n) all that is not CLOSE to the origin, wherever eps stands."""
    radius = radii(tables["geometry"])
    if not {"inside", "outside"} <= set(radius):
        raise Untestable("The run has no radius with eps inside the root and outside.")
    n, length = (radius.index.get_level_values(name) for name in ("n", "input_norm"))
    away = radius[length / np.sqrt(n) >= rules.CLOSE]
    gap = (radius.outside - radius.inside).abs()
    widest = gap.idxmax()
    deviation = {place: (away[place] - 1).abs().max() for place in ("outside", "inside")}
    parts = [true(deviation[place] <= rules.RADIUS) for place in deviation]
    reason = (
        f"It is f(x) that must not be close to the origin, not x, and how close depends on where eps stands. From a "
        f"root mean square of {rules.CLOSE:g} on, the radius differs from √n by up to {deviation['outside']:.1%} "
        f"with eps outside the root (the essay) and by up to {deviation['inside']:.0%} with eps inside (torch). The "
        f"two radii differ by up to {gap.max():.2f} √n, at a root mean square of "
        f"{widest[1] / np.sqrt(widest[0]):.0e}. Nothing is random but the inputs: low and high are the range over n."
    )
    return statement(parts, range_over(gap.groupby("n").max()), 1, reason)


TESTS = {"geometry": composition, "geometry_radius": radius}
