"""The claims about other documents' statements, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import best, interval
from recomputed_language_model import more_than_one, of_parts

HUGE = 1e9
"""Stands for an infinite loss, gradient or ratio, so that means and intervals can be taken as usual."""


def mean(values) -> float:
    """The mean, infinite if one of the values is."""
    found = np.clip(values, -HUGE, HUGE).mean()
    return float(np.sign(found) * np.inf if abs(found) > HUGE / 1e3 else found)


def above(values, threshold: float) -> str:
    _, low, high = interval(np.clip(values, -HUGE, HUGE))
    return "seen" if low > threshold else "absent" if high <= threshold else "undecided"


def further_from_zero(values, threshold: float) -> str:
    """Is the whole interval further from 0 than the threshold, on the side of the mean?"""
    values = np.clip(values, -HUGE, HUGE)
    return above(values if values.mean() >= 0 else -values, threshold)


def more(values) -> str:
    """On which side of 0 is the interval?"""
    _, low, high = interval(np.clip(values, -HUGE, HUGE))
    return "seen" if low > 0 else "reversed" if high < 0 else "undecided"


def near(values, predicted: float, tolerance: float) -> str:
    _, low, high = interval(values)
    if predicted - tolerance <= low and high <= predicted + tolerance:
        return "seen"
    outside = low > predicted + tolerance or high < predicted - tolerance
    return "absent" if outside else "undecided"


def true(condition) -> str:
    return "seen" if condition else "absent"


def negated(finding: str) -> str:
    return {"seen": "absent", "absent": "seen"}.get(finding, finding)


def together(findings) -> str:
    found = set(findings)
    return next((kind for kind in ("absent", "undecided") if kind in found), "seen")


def judged(parts, cause: str = "seen") -> str:
    """What a statement with these parts and this cause gets."""
    if cause == "seen" or not {*parts} <= {"seen", "smaller"}:
        return of_parts(*parts)
    return "not tested" if cause == "undecided" else "partial"


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


def shape(t, norm: str) -> pd.DataFrame:
    """The exact outputs: one row an n, one column a quantity."""
    g = t["geometry"]
    return g[(g.norm == norm) & g.input_norm.isna()].set_index(["n", "quantity"]).value.unstack()


def radii(t) -> pd.DataFrame:
    """Mean radius over sqrt(n): one row an n and input norm, a column for eps inside and one for eps outside."""
    g = t["geometry"].query(
        "norm == 'layernorm' and quantity == 'radius_mean' and dtype == 'float64' and offset == 0"
    )
    return g[g.eps == g.eps.max()].set_index(["n", "input_norm", "eps_placement"]).value.unstack()


def geometry_verdict(t):
    s, r = shape(t, "layernorm"), shape(t, "rmsnorm")
    largest = s[["axes_deviation", "axes_cosine", "centre_deviation"]].to_numpy().max()
    ellipsoid = largest <= 1e-9 and all(s["rank"] == s.index - 1)
    sphere = r[["axes_deviation", "axes_cosine"]].to_numpy().max() <= 1e-9 and all(r["rank"] == r.index)
    return judged([true(from_torch(t) <= 1e-9), true(ellipsoid)], true(sphere))


def radius_verdict(t):
    r = radii(t).reset_index()
    r = r[r.input_norm / r.n**0.5 >= 1e-3]
    return judged([true((r[place] - 1).abs().max() <= 0.01) for place in ("inside", "outside")])


# One matrix for W_O and W_1


def square(t) -> pd.DataFrame:
    """Random weights, heads together as wide as the stream, a single map of the heads."""
    return t["fusion"].query("source == 'random' and d == d_heads and inputs == 'heads'")


def missed(t, arrangement: str, d: int | None = None) -> pd.Series:
    """Per cent of the variance that a single map misses, by seed, at a width of the stream or the largest."""
    f = square(t)
    f = f[(f.d == (f.d.max() if d is None else d)) & (f.arrangement == arrangement)]
    return 100 * f.error.groupby(f.seed).mean()


def nothing_between(t) -> str:
    """Does a single map miss nothing with nothing between the two matrices?"""
    return true(interval(missed(t, "plain"))[2] <= 1e-7)


def residual_verdict(t):
    return judged([more_than_one(missed(t, "residual"))], nothing_between(t))


def norm_verdict(t):
    alone = together([more_than_one(missed(t, "norm", d)) for d in square(t).d.unique()])
    return judged([negated(more_than_one(missed(t, "residual"))), alone], nothing_between(t))


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


def worse(gap: pd.Series) -> str:
    return "absent" if not gap.any() else more(gap)


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


def tuned_verdict(t) -> str:
    return "not tested" if tuned(t) is None else judged([worse(tuned(t))])


def gain(runs: pd.DataFrame) -> pd.Series:
    """By how much the longest warm-up lowers the loss."""
    return difference(runs, "warmup", runs.warmup.min(), runs.warmup.max())


def post_norm(t) -> pd.DataFrame:
    return ends(t).query("placement == 'post'")


def slow_gain(t) -> pd.Series:
    e = post_norm(t)
    return gain(e[(e.depth == e.depth.max()) & (e.learning_rate == e.learning_rate.min())])


def warm_up_verdict(t):
    if t["placement"].warmup.nunique() < 2:
        return "not tested"
    cells = [runs for _, runs in post_norm(t).groupby(["depth", "learning_rate"])]
    return judged(["undecided" if all(runs.status == "stuck") else above(gain(runs), 0.05) for runs in cells])


def steepness(gradients: pd.DataFrame) -> pd.DataFrame:
    """By how many decades the gradient norm grows from layer to layer, for each run and step."""
    found = []
    names = ["placement", "learning_rate", "seed"]
    for (*run, _), network in gradients.groupby([*names, "step"]):
        with np.errstate(divide="ignore"):
            decades = np.log10(network.gradient_norm)
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


def steep(gradients: pd.DataFrame) -> str:
    """Is post-norm's slope steep at every rate, and pre-norm's at none?"""
    findings = []
    for _, at_rate in gradients.groupby("learning_rate"):
        tenfold = 1 / (at_rate.depth.max() - 1)
        findings.append(further_from_zero(growth(at_rate, "post"), tenfold))
        findings.append(negated(further_from_zero(growth(at_rate, "pre"), tenfold)))
    return together(findings)


def spread(t, column: str, placement: str, trained: bool) -> pd.Series:
    """Of each seed the logarithm of the largest over the smallest size in a network, at the worst rate."""
    s = deepest(t["placement_scales"])
    s = s[(s.placement == placement) & ((s.step > 0) == trained)]
    sizes = s.pivot_table(index=["learning_rate", "step", "seed"], values=column, aggfunc=["max", "min"])
    ratio = (sizes["max"] / sizes["min"])[column]
    return np.log(ratio.fillna(np.inf).groupby("seed").max())


def twofold(values) -> str:
    return above(values, np.log(2))


def scales_verdict(t):
    pre, post = (
        [twofold(spread(t, "input_rms", name, late)) for late in (False, True)] for name in ("pre", "post")
    )
    return judged(
        [together(map(negated, pre)), together(post)], twofold(spread(t, "stream_rms", "pre", True))
    )


def first_layer(t, placement: str, residual: bool) -> pd.Series:
    """Decades by which the first layer's gradient changes from the shallowest to the deepest networks."""
    g = t["untrained_gradients"].query("layer == 1 and placement == @placement and residual == @residual")
    norm = g.set_index(["seed", "depth"]).gradient_norm.unstack()
    with np.errstate(divide="ignore"):
        return np.log10(norm[norm.columns.max()] / norm[norm.columns.min()])


def places(t) -> list[str]:
    return [name for name in ("pre", "post", "none") if name in set(t["untrained_gradients"].placement)]


def residual_connections_verdict(t):
    parts = [negated(further_from_zero(first_layer(t, name, True), 1)) for name in places(t)]
    needed = [further_from_zero(first_layer(t, name, False), 1) for name in places(t)]
    return judged(parts, together(needed))


# The batch


def batch_exponents(t) -> pd.Series:
    others = t["batch_dependence"].query("norm == 'batchnorm' and effect == 'others'")
    return slopes(others, "batch_size", "change")


def batch_verdict(t):
    constant = (t["batch_dependence"].query("norm == 'layernorm'").change == 0).all()
    return judged([true(constant), more(-batch_exponents(t))])


# Scores


def score_exponents(t, source: str, column: str, divided: bool = False) -> pd.Series:
    s = t["score_scale"].query("source == @source and divided == @divided")
    return slopes(s, "d_k", column)


def at_widest(t, column: str) -> pd.DataFrame:
    """One row a seed, one column without the division and one with it."""
    s = t["score_scale"].query("source == 'normal'")
    return s[s.d_k == s.d_k.max()].groupby(["seed", "divided"])[column].mean().unstack()


def saturation_verdict(t):
    both = [at_widest(t, column) for column in ("entropy_share", "gradient")]
    return judged([more(values[True] - values[False]) for values in both])


def score_mean_verdict(t):
    columns = ("score_mean", "score_std")
    return judged([near(score_exponents(t, "normal_mean_1", column), 1, 0.05) for column in columns])


def trained_scores(t) -> pd.DataFrame:
    return t["score_scale"].query("source == 'language_model' and divided and variant == 'layernorm'")


def trained_verdict(t):
    s = trained_scores(t)
    if s.seed.nunique() < 2:
        return "not tested"
    return judged([true(s.score_std.max() < 2), true(s.score_std.min() < 2)])


# Worked numbers


def examples(t) -> list[set[str]]:
    """The verdicts on the numbers of each example."""
    words = "self-attention as a linear operation"
    return [set(part.verdict) for name, part in t["worked_numbers"].groupby("example") if name != words]


def doubled(t) -> pd.Series:
    """The output of attention for twice the tokens, over the output."""
    return t["worked_numbers"].query("quantity.str.startswith('output for twice')").recomputed


def worked_numbers_verdict(t):
    def found(verdicts):
        return "absent" if "wrong" in verdicts else "smaller" if verdicts & {"hedged", "rounding"} else "seen"

    return judged([found(verdicts) for verdicts in examples(t)])


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

VERDICTS = {
    "geometry": geometry_verdict,
    "geometry_radius": radius_verdict,
    "fusion_residual": residual_verdict,
    "fusion_norm": norm_verdict,
    "placement": lambda t: judged(map(worse, gaps(t))),
    "placement_tuned": tuned_verdict,
    "placement_gradients": lambda t: judged([steep(untrained(t)), steep(training(t))]),
    "placement_warm_up": warm_up_verdict,
    "placement_scales": scales_verdict,
    "residual_connections": residual_connections_verdict,
    "residual_position": lambda t: judged(
        [above(position_gaps(t, True), 100 / t["position_probe"].context_length.iloc[0])]
    ),
    "batch_dependence": batch_verdict,
    "score_saturation": saturation_verdict,
    "score_mean": score_mean_verdict,
    "scores_language_model": trained_verdict,
    "attention_linear": lambda t: judged([true(np.allclose(doubled(t), 2))]),
    "worked_numbers": worked_numbers_verdict,
}
"""For each claim the function that reaches a verdict from the tables of a reproduction."""
