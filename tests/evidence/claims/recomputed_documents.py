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


def slopes(table: pd.DataFrame, x: str, y: str) -> pd.Series:
    """For each seed the slope of log y over log x."""
    fits = {s: np.polyfit(np.log(part[x]), np.log(part[y]), 1)[0] for s, part in table.groupby("seed")}
    return pd.Series(fits)


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


def square(t) -> pd.DataFrame:
    """Random weights, heads together as wide as the stream, a single map of the heads."""
    return t["fusion"].query("source == 'random' and d == d_heads and inputs == 'heads'")


def missed(t, arrangement: str, d: int | None = None) -> pd.Series:
    """Per cent of the variance that a single map misses, by seed, at a width of the stream or the largest."""
    f = square(t)
    f = f[(f.d == (f.d.max() if d is None else d)) & (f.arrangement == arrangement)]
    return 100 * f.error.groupby(f.seed).mean()


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


def gaps(t) -> list[pd.Series]:
    """Post-norm minus pre-norm at each learning rate, deepest networks."""
    return [
        difference(runs, "placement", "post", "pre") for _, runs in deepest(ends(t)).groupby("learning_rate")
    ]


def tuned(t) -> pd.Series | None:
    """Post-norm minus pre-norm in the deepest networks, each at its best setting for the other half of the seeds.

    None if the rate is the first or the last for one of them.
    """
    e = ends(t)
    e, chosen = e[e.depth == e.depth.max()], []
    seeds = sorted(e.seed.unique())
    for (placement, seed), runs in e.groupby(["placement", "seed"]):
        half = [other for other in seeds if (seeds.index(other) - seeds.index(seed)) % 2]
        others = e[(e.placement == placement) & e.seed.isin(half)]
        rate, warmup = best(others.pivot(index="seed", columns=["learning_rate", "warmup"], values="loss"))
        if rate in (e.learning_rate.min(), e.learning_rate.max()):
            return None
        chosen.append(runs[(runs.learning_rate == rate) & (runs.warmup == warmup)])
    return difference(pd.concat(chosen), "placement", "post", "pre")


def gain(runs: pd.DataFrame) -> pd.Series:
    """By how much the longest warm-up lowers the loss."""
    return difference(runs, "warmup", runs.warmup.min(), runs.warmup.max())


def post_norm(t) -> pd.DataFrame:
    return ends(t).query("placement == 'post'")


def slow_gain(t) -> pd.Series:
    e = post_norm(t)
    return gain(e[(e.depth == e.depth.max()) & (e.learning_rate == e.learning_rate.min())])


def steepness(gradients: pd.DataFrame) -> pd.DataFrame:
    """By how many decades the gradient norm grows from layer to layer, for each run and step; 0 has vanished."""
    found = []
    names = ["placement", "learning_rate", "seed"]
    for (*run, _), network in gradients.groupby([*names, "step"]):
        decades = np.log10(
            network.gradient_norm.replace(0.0, 2.0**-74.5)
        )  # its square is the smallest in float32
        if np.isfinite(decades).all():
            found.append((*run, np.polyfit(network.layer, decades, 1)[0]))
    return pd.DataFrame(found, columns=[*names, "slope"])


def untrained(t) -> pd.DataFrame:
    g = t["untrained_gradients"].query("residual")
    return g[g.depth == g.depth.max()].assign(learning_rate=0.0, step=0)


def training(t) -> pd.DataFrame:
    return deepest(t["placement_gradients"]).query("step > 0")


def growth(gradients: pd.DataFrame, placement: str = "post") -> pd.Series:
    """Of each seed the mean steepness over steps and rates."""
    s = steepness(gradients).query("placement == @placement")
    return s.slope.groupby(s.seed).mean()


def spread(t, column: str, placement: str, trained: bool) -> pd.Series:
    """Of each seed the logarithm of the largest over the smallest size in a network, at the worst rate."""
    s = deepest(t["placement_scales"])
    s = s[(s.placement == placement) & ((s.step > 0) == trained)]
    sizes = s.pivot_table(index=["learning_rate", "step", "seed"], values=column, aggfunc=["max", "min"])
    ratio = (sizes["max"] / sizes["min"])[column]
    return np.log(ratio.fillna(np.inf).groupby("seed").max())


def first_layer(t, placement: str, residual: bool) -> pd.Series:
    """Decades by which the first layer's gradient changes from the shallowest to the deepest networks."""
    g = t["untrained_gradients"].query("layer == 1 and placement == @placement and residual == @residual")
    norm = g.set_index(["seed", "depth"]).gradient_norm.unstack()
    with np.errstate(divide="ignore"):
        return np.log10(norm[norm.columns.max()] / norm[norm.columns.min()])


def places(t) -> list[str]:
    return [name for name in ("pre", "post", "none") if name in set(t["untrained_gradients"].placement)]


# The batch


def batch_exponents(t) -> pd.Series:
    others = t["batch_dependence"].query("norm == 'batchnorm' and effect == 'others'")
    return slopes(others, "batch_size", "change")


# Scores


def score_exponents(t, source: str, column: str, divided: bool = False) -> pd.Series:
    s = t["score_scale"].query("source == @source and divided == @divided")
    return slopes(s, "d_k", column)


def at_widest(t, column: str) -> pd.DataFrame:
    """One row a seed, one column without the division and one with it."""
    s = t["score_scale"].query("source == 'normal'")
    return s[s.d_k == s.d_k.max()].groupby(["seed", "divided"])[column].mean().unstack()


def trained_scores(t) -> pd.DataFrame:
    return t["score_scale"].query("source == 'language_model' and divided and variant == 'layernorm'")


# Worked numbers


def examples(t) -> list[set[str]]:
    """The verdicts on the numbers of each example."""
    words = "self-attention as a linear operation"
    return [set(part.verdict) for name, part in t["worked_numbers"].groupby("example") if name != words]


def doubled(t) -> pd.Series:
    """The output of attention for twice the tokens, over the output."""
    return t["worked_numbers"].query("quantity.str.startswith('output for twice')").recomputed


def right(verdicts: set[str]) -> bool:
    return not verdicts & {"wrong", "hedged", "rounding"}


def position_gaps(t, trained: bool) -> pd.Series:
    """By how many percentage points a probe names more positions before the last layer with residual connections."""
    p = t["position_probe"].query("placement == 'pre' and (step > 0) == @trained").dropna()
    p = p[(p.depth == p.depth.max()) & (p.layer == p.depth)]
    by_run = p.groupby(["seed", "residual"]).position_accuracy.mean().unstack()
    return 100 * (by_run[True] - by_run[False])


RECOMPUTED = {
    "geometry": from_torch,
    "geometry_radius": lambda t: (radii(t).outside - radii(t).inside).abs().max(),
    "fusion_residual": lambda t: missed(t, "residual").mean(),
    "fusion_norm": lambda t: missed(t, "residual").mean(),
    "placement": lambda t: mean(sum(gaps(t)) / len(gaps(t))),
    "placement_tuned": lambda t: mean(tuned(t)),
    "placement_gradients": lambda t: growth(training(t)).mean(),
    "placement_warm_up": lambda t: mean(slow_gain(t)),
    "placement_scales": lambda t: np.exp(mean(spread(t, "input_rms", "pre", trained=True))),
    "residual_connections": lambda t: mean(first_layer(t, places(t)[0], True)),
    "residual_position": lambda t: position_gaps(t, True).mean(),
    "batch_dependence": lambda t: batch_exponents(t).mean(),
    "score_saturation": lambda t: 100 * at_widest(t, "entropy_share")[False].mean(),
    "score_mean": lambda t: score_exponents(t, "normal_mean_1", "score_mean").mean(),
    "scores_language_model": lambda t: trained_scores(t).groupby("seed").score_std.mean().mean(),
    "attention_linear": lambda t: doubled(t).iloc[0],
    "worked_numbers": lambda t: 100 * np.mean([right(verdicts) for verdicts in examples(t)]),
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""
