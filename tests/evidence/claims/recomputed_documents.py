"""The claims about other documents' statements, computed again by code that shares none with evidence."""

import numpy as np
import pandas as pd

HUGE = 1e9
"""Stands for an infinite loss, gradient or ratio, so that means and intervals can be taken as usual."""


def mean(values) -> float:
    """The mean, infinite if one of the values is."""
    found = np.clip(values, -HUGE, HUGE).mean()
    return float(np.sign(found) * np.inf if abs(found) > HUGE / 1e3 else found)


def from_torch(t) -> float:
    """Largest difference with eps inside the root."""
    g = t["geometry"].query("quantity == 'difference_from_torch' and eps_placement == 'inside'")
    return g.value.max()


def radii(t) -> pd.DataFrame:
    """Mean radius over sqrt(n): one row an n and input norm, a column for eps inside and one for eps outside."""
    g = t["geometry"].query("quantity == 'radius_mean'")
    return g[g.eps == g.eps.max()].set_index(["n", "input_norm", "eps_placement"]).value.unstack()


# One matrix for W_O and W_1


def missed(t) -> float:
    """Per cent of the variance that a single map of the heads misses, of the widest random weights with a residual."""
    f = t["fusion"].query("source == 'random' and arrangement == 'residual'")
    return 100 * f[f.d == f.d.max()].groupby("seed").error.mean().mean()


# Pre-norm and post-norm


def gaps(t) -> pd.Series:
    """Post-norm minus pre-norm in the last tenth of the steps of the deepest networks, mean over learning rates."""
    p = t["placement"]
    steps = p.step.max() + 1
    p = p[(p.depth == p.depth.max()) & (p.step >= steps - max(1, steps // 10))]
    loss = p.train_loss.fillna(np.inf).groupby([p.learning_rate, p.seed, p.placement]).mean()
    loss = loss.clip(upper=HUGE).unstack()
    return (loss.post - loss.pre).unstack("seed").mean(skipna=False).dropna()


def first_layer(t) -> pd.Series:
    """Decades by which the first layer's gradient changes from shallow to deep, in the first kind of networks."""
    g = t["untrained_gradients"].query("residual")
    placement = next(name for name in ("pre", "post", "none") if name in set(g.placement))
    norm = g[g.placement == placement].set_index(["seed", "depth"]).gradient_norm.unstack()
    with np.errstate(divide="ignore"):
        return np.log10(norm[norm.columns.max()] / norm[norm.columns.min()])


def position_gaps(t) -> pd.Series:
    """By how many percentage points a probe names more positions before the last layer with residual connections."""
    p = t["position_probe"].query("placement == 'pre' and step > 0").dropna()
    p = p[(p.depth == p.depth.max()) & (p.layer == p.depth)]
    by_run = p.groupby(["seed", "residual"]).position_accuracy.mean().unstack()
    return 100 * (by_run[True] - by_run[False])


RECOMPUTED = {
    "geometry": from_torch,
    "geometry_radius": lambda t: (radii(t).outside - radii(t).inside).abs().max(),
    "fusion_residual": missed,
    "fusion_norm": missed,
    "placement": lambda t: mean(gaps(t)),
    "residual_connections": lambda t: mean(first_layer(t)),
    "residual_position": lambda t: position_gaps(t).mean(),
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""
