"""The claims about other documents' statements, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import best

HUGE = 1e9
"""Stands for an infinite loss, gradient or ratio, so that means and intervals can be taken as usual."""


def mean(values) -> float:
    """The mean, infinite if one of the values is."""
    found = np.clip(values, -HUGE, HUGE).mean()
    return float(np.sign(found) * np.inf if abs(found) > HUGE / 1e3 else found)


def slopes(name: str, query: str, x: str, y: str):
    """Mean over the seeds of the slope of log y over log x."""

    def compute(t) -> float:
        seeds = t[name].query(query).groupby("seed")
        return np.mean([np.polyfit(np.log(part[x]), np.log(part[y]), 1)[0] for _, part in seeds])

    return compute


# Geometry


def from_torch(t) -> float:
    """Largest difference in float64, centred inputs, eps inside the root."""
    rows = t["geometry"].query(
        "norm == 'layernorm' and quantity == 'difference_from_torch' and dtype == 'float64'"
        " and eps_placement == 'inside' and offset == 0"
    )
    return rows.value.max()


def radii(t) -> pd.DataFrame:
    """Mean radius over sqrt(n): one row an n and input norm, a column for eps inside and one for eps outside."""
    g = t["geometry"].query(
        "norm == 'layernorm' and quantity == 'radius_mean' and dtype == 'float64' and offset == 0"
    )
    return g[g.eps == g.eps.max()].set_index(["n", "input_norm", "eps_placement"]).value.unstack()


# One matrix for W_O and W_1


def missed(t) -> float:
    """Per cent of the variance that a single map of the heads misses, of the widest random weights with a residual."""
    f = t["fusion"].query(
        "source == 'random' and d == d_heads and inputs == 'heads' and arrangement == 'residual'"
    )
    return 100 * f[f.d == f.d.max()].groupby("seed").error.mean().mean()


# Pre-norm and post-norm


def ends(t) -> pd.DataFrame:
    """The runs and their mean loss over the last tenth of the steps."""
    p = t["placement"]
    steps = p.step.max() + 1
    p = p[p.step > p.step.max() - max(1, steps // 10)]
    loss = p.train_loss.mask(~np.isfinite(p.train_loss), np.inf)
    run = ["placement", "depth", "learning_rate", "warmup", "seed", "status"]
    return p.assign(loss=loss).groupby(run).loss.mean().reset_index()


def deepest(table: pd.DataFrame) -> pd.DataFrame:
    """The deepest networks, without warm-up."""
    return table[(table.warmup == table.warmup.min()) & (table.depth == table.depth.max())]


def difference(runs: pd.DataFrame, by: str, worse, better) -> pd.Series:
    """Of each seed the loss where column `by` is `worse` minus that where it is `better`."""
    loss = runs.set_index(["seed", by]).loss.clip(upper=HUGE).unstack()
    return (loss[worse] - loss[better]).dropna()


def gaps(t) -> pd.Series:
    """Post-norm minus pre-norm in the deepest networks, mean over learning rates."""
    by_rate = [
        difference(e, "placement", "post", "pre") for _, e in deepest(ends(t)).groupby("learning_rate")
    ]
    return sum(by_rate) / len(by_rate)


def tuned(t) -> pd.Series:
    """Post-norm minus pre-norm in the deepest networks, each at its best setting for the other half of the seeds."""
    e = ends(t)
    e, chosen = e[e.depth == e.depth.max()], []
    seeds = sorted(e.seed.unique())
    for (placement, seed), runs in e.groupby(["placement", "seed"]):
        half = [other for other in seeds if (seeds.index(other) - seeds.index(seed)) % 2]
        others = e[(e.placement == placement) & e.seed.isin(half)]
        rate, warmup = best(others.pivot(index="seed", columns=["learning_rate", "warmup"], values="loss"))
        chosen.append(runs[(runs.learning_rate == rate) & (runs.warmup == warmup)])
    return difference(pd.concat(chosen), "placement", "post", "pre")


def slow_gain(t) -> pd.Series:
    """By how much the longest warm-up lowers post-norm's loss in the deepest networks at the lowest rate."""
    e = ends(t).query("placement == 'post'")
    e = e[(e.depth == e.depth.max()) & (e.learning_rate == e.learning_rate.min())]
    return difference(e, "warmup", e.warmup.min(), e.warmup.max())


def growth(t) -> float:
    """By how many decades post-norm's gradient norm grows from layer to layer in training, mean over all of it."""
    gradients = deepest(t["placement_gradients"]).query("step > 0 and placement == 'post'")
    found = {}
    for (seed, *_), network in gradients.groupby(["seed", "learning_rate", "step"]):
        norm = network.gradient_norm.replace(
            0.0, 2.0**-74.5
        )  # vanished; its square is the smallest in float32
        if norm.between(0, np.inf, inclusive="neither").all():
            slope = np.polyfit(network.layer, np.log10(norm), 1)[0]
            found.setdefault(seed, []).append(slope)
    return np.mean([np.mean(slopes) for slopes in found.values()])


def spread(t) -> pd.Series:
    """Of each seed the logarithm of the largest over the smallest input in pre-norm networks, at the worst rate."""
    s = deepest(t["placement_scales"]).query("placement == 'pre' and step > 0")
    sizes = s.groupby(["learning_rate", "step", "seed"]).input_rms
    return np.log((sizes.max() / sizes.min()).fillna(np.inf).groupby("seed").max())


def first_layer(t) -> pd.Series:
    """Decades by which the first layer's gradient changes from shallow to deep, in the first kind of networks."""
    g = t["untrained_gradients"].query("layer == 1 and residual")
    placement = next(name for name in ("pre", "post", "none") if name in set(g.placement))
    norm = g[g.placement == placement].set_index(["seed", "depth"]).gradient_norm.unstack()
    with np.errstate(divide="ignore"):
        return np.log10(norm[norm.columns.max()] / norm[norm.columns.min()])


# The batch and scores


def entropy(t) -> float:
    """Per cent of the largest entropy that attention keeps without the division, at the largest d_k."""
    s = t["score_scale"].query("source == 'normal' and not divided")
    return 100 * s[s.d_k == s.d_k.max()].groupby("seed").entropy_share.mean().mean()


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
    "placement_tuned": lambda t: mean(tuned(t)),
    "placement_gradients": growth,
    "placement_warm_up": lambda t: mean(slow_gain(t)),
    "placement_scales": lambda t: np.exp(mean(spread(t))),
    "residual_connections": lambda t: mean(first_layer(t)),
    "residual_position": lambda t: position_gaps(t).mean(),
    "batch_dependence": slopes(
        "batch_dependence", "norm == 'batchnorm' and effect == 'others'", "batch_size", "change"
    ),
    "score_saturation": entropy,
    "score_mean": slopes("score_scale", "source == 'normal_mean_1' and not divided", "d_k", "score_mean"),
    "scores_language_model": lambda t: (
        t["score_scale"]
        .query("source == 'language_model' and divided and variant == 'layernorm'")
        .groupby("seed")
        .score_std.mean()
        .mean()
    ),
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""
