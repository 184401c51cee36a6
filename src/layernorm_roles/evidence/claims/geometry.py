"""What an essay says about LayerNorm as h(g(f(x))), with f a projection, g a scaling, h gain and bias.

Nothing is random but the inputs: the ends of the estimates are the range over the sizes of a vector.
"""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import differences_from_torch, ellipsoids, radii
from layernorm_roles.evidence.claims.claim import Outcome, Tables, Untestable, compare, true


def measured_shape(geometry: pd.DataFrame, norm: str) -> pd.DataFrame:
    """How far the outputs of `norm` are from the predicted ellipsoid; Untestable if the run lacks the norm."""
    shape = ellipsoids(geometry, norm)
    if shape.empty:
        raise Untestable(f"The run has no ellipsoid of {norm}.")
    return shape


def range_over(values: pd.Series) -> Estimate:
    """The largest value, with the range of the values in place of an interval."""
    return Estimate(float(values.max()), float(values.min()), float(values.max()))


def composition(tables: Tables, rounding: float) -> Outcome:
    """Whether h(g(f(x))) is torch's layer_norm, with outputs on an ellipsoid of dimension n - 2; RMSNorm's on n - 1."""
    differences = differences_from_torch(tables["geometry"])
    shape, control = (measured_shape(tables["geometry"], norm) for norm in ("layernorm", "rmsnorm"))
    by_n = differences[differences.dtype == "float64"].groupby("n").value.max()
    if by_n.empty:
        raise Untestable("The run compares no float64 LayerNorm with torch's.")
    deviation = shape[["axes_deviation", "axes_cosine", "centre_deviation"]].max(axis=1)
    stretched = control[["axes_deviation", "axes_cosine"]].max(axis=1)
    flat, full = (shape["rank"] == shape.index - 1).all(), (control["rank"] == control.index).all()
    finite = differences[np.isfinite(differences.value) & (differences.dtype != "float64")]
    ellipsoid, asked = "deviation of axes and centre from the ellipsoid", f"at most {rounding:g}"
    return Outcome(
        (
            compare("float64", range_over(by_n), 1, true(by_n.max() <= rounding, asked)),
            compare(
                "layernorm",
                range_over(deviation),
                1,
                true(deviation.max() <= rounding and flat, f"{asked}, rank n - 1"),
                statistic=ellipsoid,
                part=1,
            ),
            compare(
                "rmsnorm",
                range_over(stretched),
                1,
                true(full and stretched.max() <= rounding, f"{asked}, rank n"),
                "control",
                " of the axes",
                ellipsoid,
            ),
            *(
                compare(f"{dtype}, where finite", range_over(values), 1, role="context")
                for dtype, values in finite.groupby("dtype").value
            ),
        )
    )


def radius(tables: Tables, close: float, tolerance: float) -> Outcome:
    """Whether g scales to the radius sqrt(n) all whose root mean square is not below `close`, wherever eps stands."""
    radius = radii(tables["geometry"])
    if not {"inside", "outside"} <= set(radius):
        raise Untestable("The run has no radius with eps inside the root and outside.")
    n, length = (radius.index.get_level_values(name) for name in ("n", "input_norm"))
    away = radius[length / np.sqrt(n) >= close]
    gap = (radius.outside - radius.inside).abs().groupby("n").max()
    rows = [compare("eps inside and outside the root", range_over(gap), 1, unit=" √n")]
    for part, place in enumerate(("outside", "inside")):
        off = (away[place] - 1).abs()
        asked, statistic = true(off.max() <= tolerance, f"at most {tolerance:g}"), "difference from the radius √n"
        words = f"eps {place} the root, root mean square from {close:g} on"
        rows.append(compare(words, range_over(off), 1, asked, unit=" √n", statistic=statistic, part=part))
    return Outcome(tuple(rows))


TESTS = {"composition": composition, "radius": radius}
