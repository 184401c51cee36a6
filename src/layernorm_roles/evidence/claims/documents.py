"""What other documents say about LayerNorm: quantities of the experiments on their statements, and two tests.

The essay has LayerNorm as h(g(f(x))), with f a projection, g a scaling, h gain and bias. The question on W_O asks when
one matrix can do the work of W_O and W_1. Lecture notes, and Xiong et al. 2020, speak of LayerNorm before the parts of
a layer or after them, of BatchNorm, and of the division of attention scores by sqrt(d_k).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import statements
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import (
    ASKED,
    RATIO,
    UNTRAINED,
    Outcome,
    Tables,
    Untestable,
    compare,
    over_seeds,
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.pairs import Measured, Quantity
from layernorm_roles.evidence.claims.rules import Finding

NATS = " nats"

# Geometry: nothing is random but the inputs, and the ends of the estimates are the range over the sizes of a vector


def geometry(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Differences from torch's layer_norm, and from the ellipsoid or the sphere on which outputs are to lie."""
    table = tables["geometry"]
    differences = statements.differences_from_torch(table)
    exact = differences[differences.dtype == "float64"].groupby("n").value.max()
    shapes = {norm: statements.ellipsoids(table, norm) for norm in ("layernorm", "rmsnorm")}
    if lacking := [norm for norm, shape in shapes.items() if shape.empty]:
        raise Untestable(f"The run has no ellipsoid of {lacking[0]}.")
    if exact.empty:
        raise Untestable("The run compares no float64 LayerNorm with torch's.")
    found = {GEOMETRY[0]: exact}
    for (norm, shape), place, less in zip(shapes.items(), (GEOMETRY[1:3], GEOMETRY[3:]), (1, 0), strict=True):
        deviations = shape.filter(
            ["axes_deviation", "axes_cosine", *["centre_deviation"] * (norm == "layernorm")]
        )
        found |= {place[0]: deviations.max(axis=1), place[1]: (shape["rank"] - (shape.index - less)).abs()}
    return Measured(pd.DataFrame(found), random=False)


GEOMETRY = (
    "difference from torch's layer_norm, float64",
    "layernorm, deviation from the ellipsoid",
    "layernorm, rank minus (n - 1)",
    "rmsnorm, deviation from the sphere",
    "rmsnorm, rank minus n",
)
RADII = (
    "between eps inside and outside",
    "eps inside, away from the origin",
    "eps outside, away from the origin",
)


def radius(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """How far the radius is from sqrt(n) with eps inside the root and outside, from a root mean square of CLOSE on."""
    radii = statements.radii(tables["geometry"])
    if not {"inside", "outside"} <= set(radii):
        raise Untestable("The run has no radius with eps inside the root and outside.")
    n, length = (radii.index.get_level_values(name) for name in ("n", "input_norm"))
    away = radii[length / np.sqrt(n) >= rules.CLOSE]
    off = (radii.outside - radii.inside, away.inside - 1, away.outside - 1)
    return Measured(
        pd.DataFrame({name: each.abs().groupby("n").max() for name, each in zip(RADII, off, strict=True)}),
        random=False,
    )


# One matrix for W_O and W_1


def missed(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Per cent of the held-out variance that the best single map of the heads misses, by arrangement."""
    fusion = tables["fusion"]
    random = fusion[(fusion.source == "random") & (fusion.d == fusion.d_heads)]
    found = {}
    for name in fusion.arrangement.unique():
        found[name] = statements.fusion_errors(fusion, name)
        found[f"{name}, trained language models"] = statements.fusion_errors(fusion, name, trained=True)
        for d in sorted(random.d.unique().tolist()):
            found[f"{name}, d = {d}"] = statements.fusion_errors(fusion, name, d)
    return Measured(pd.DataFrame({name: errors for name, errors in found.items() if len(errors)}))


# Pre-norm and post-norm

PLACES = {"pre": "pre-norm", "post": "post-norm", "none": "no LayerNorm"}
"""In words, where a network has its LayerNorms."""


def both_placements(table: pd.DataFrame) -> pd.DataFrame:
    """The table; Untestable if pre-norm or post-norm is missing."""
    missing = {"pre", "post"} - set(table.placement)
    if missing:
        raise Untestable(f"The run has no {' and no '.join(sorted(missing))}-norm.")
    return table


def diverged(runs: pd.DataFrame) -> str:
    """A sentence about runs whose loss was not finite at the end; empty if there is none."""
    number = int(np.isinf(runs.loss).sum())
    return f"{number} of these runs diverged and count as infinitely bad." if number else ""


def final_loss_gap(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Post-norm's final training loss minus pre-norm's without warm-up, in the deepest and the shallowest networks."""
    placement = both_placements(tables["placement"])
    losses, ends = statements.final_losses(placement), statements.run_ends(placement)
    bare = losses[losses.warmup == losses.warmup.min()]
    gap, found = statements.excess(bare.post, bare.pre), {}
    for name, depth in (("deepest", bare.depth.max()), ("shallowest", bare.depth.min())):
        own = gap[bare.depth[gap.index] == depth]
        found[f"{name}, mean over rates"] = own.groupby(bare.seed).mean()
        for rate, values in own.groupby(bare.learning_rate):
            found[f"{name}, rate {rate:g}"] = values.groupby(bare.seed).mean()
    return Measured(
        pd.DataFrame(found), note=diverged(ends[ends.depth.isin([bare.depth.max(), bare.depth.min()])])
    )


def tuned_loss_gap(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Post-norm's loss minus pre-norm's, each at its best setting; Untestable if the best rate ends the grid."""
    ends, found = statements.run_ends(both_placements(tables["placement"])), {}
    if ends.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    for which, depth in (("deepest", ends.depth.max()), ("shallowest", ends.depth.min())):
        runs = statements.tuned(ends, int(depth))
        for name, chosen in runs.groupby("placement") if which == "deepest" else ():
            refuse_rate_at_grid_end(
                chosen.at_end, chosen.learning_rate, f"{PLACES[name]} with {depth} layers"
            )
        losses = runs.pivot(index="seed", columns="placement", values="loss")
        found[which] = statements.excess(losses.post, losses.pre)
    return Measured(pd.DataFrame(found))


def deepest_without_warm_up(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the runs of the deepest networks without warm-up, or with the shortest one."""
    bare = table[table.warmup == table.warmup.min()]
    return bare[bare.depth == bare.depth.max()]


def gradient_growth(over_all_layers: bool, tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """By how many decades the gradient norm grows from layer to layer, or over all layers, in the deepest networks.

    Untrained, and in training without warm-up, mean over its steps.
    """
    gradients = tables["untrained_gradients"]
    first = gradients[gradients.residual & (gradients.depth == gradients.depth.max())]
    first = first.assign(learning_rate=0.0, warmup=0, step=0)
    later, found = deepest_without_warm_up(tables["placement_gradients"]), {}
    for when, rows in (("untrained", first), ("in training", later[later.step > 0])):
        depth, slopes = int(rows.depth.max()), both_placements(statements.gradient_slopes(rows))
        if depth < 2:
            raise Untestable("The run has no network of several layers.")
        slopes = slopes.assign(slope=slopes.slope * (depth - 1 if over_all_layers else 1))
        for name, own in slopes.groupby("placement"):
            found[f"{name}, {when}, mean over rates"] = own.groupby("seed").slope.mean()
            for rate, part in own.groupby("learning_rate"):
                found[f"{name}, {when}, rate {rate:g}"] = part.groupby("seed").slope.mean()
    return Measured(pd.DataFrame(found))


def sizes(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Logarithms of the largest over the smallest size in the deepest networks without warm-up, at the worst rate."""
    scales, found = both_placements(deepest_without_warm_up(tables["placement_scales"])), {}
    for what, column in (("inputs", "input_rms"), ("stream", "stream_rms")):
        ratios = statements.scale_ratios(scales, column)
        for (name, trained), own in ratios.groupby(["placement", ratios.step > 0]):
            when = "trained" if trained else "untrained"
            found[f"{name}, {what}, {when}"] = np.log(own.groupby("seed").ratio.max())
    return Measured(pd.DataFrame(found))


def first_gradient_change(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Decades by which the first layer's gradient changes from the shallowest to the deepest untrained networks."""
    if tables["untrained_gradients"].depth.nunique() < 2:
        raise Untestable("The run has untrained networks of a single depth.")
    change = statements.first_layer_change(tables["untrained_gradients"])
    wide = change.pivot(index="seed", columns=["residual", "placement"], values="decades")
    words = {True: "with residual connections", False: "without residual connections"}
    order = [(residual, name) for residual in words for name in PLACES if (residual, name) in wide]
    names = [f"{words[residual]}, {PLACES[name]}" for residual, name in order]
    return Measured(wide[order].set_axis(names, axis=1))


def residuals_carry_positions(tables: Tables) -> Outcome:
    """Whether a probe of the stream names more positions with residual connections, by more than guessing names."""
    probe = tables["position_probe"]
    shares = statements.position_accuracies(probe)
    pre = shares[shares.placement == "pre"]
    deep = pre[pre.layer == pre.layer.max()]
    if deep.residual.nunique() < 2:
        raise Untestable("The run has no pre-norm networks with residual connections and without.")
    wide = deep.pivot(index=["trained", "seed"], columns="residual", values="percent").dropna()
    gaps, rows = (wide[True] - wide[False]).unstack("trained"), []
    by_guessing = ASKED["more_than"](100 / probe.context_length.max())
    words = "with residual connections minus without"
    for kind, when, role in ((True, "trained", "effect"), (False, "untrained", "control")):
        seeds = gaps[kind].dropna()
        found, asked = over_seeds(seeds, "both networks"), by_guessing if kind else None
        rows.append(compare(f"{words}, {when}", found, len(seeds), asked, role, " points"))
    passes = by_guessing.find(rows[1].estimate, None) == Finding.SEEN and rows[0].met
    return Outcome(tuple(rows), also_passed_by=UNTRAINED if passes else None)


def needs_warm_up(tables: Tables, nats: float) -> Outcome:
    """Whether a warm-up lowers post-norm's final loss by more than `nats`: a part for each depth and learning rate.

    Where no run trains, with warm-up or without, the runs cannot tell: they may be too short.
    """
    ends = statements.run_ends(both_placements(tables["placement"]))
    if ends.warmup.nunique() < 2:
        raise Untestable("The run has a single length of warm-up.")
    none, longest = int(ends.warmup.min()), int(ends.warmup.max())
    corner, lowers = (ends.depth.max(), ends.learning_rate.min()), ASKED["more_than"](nats)
    unknown = replace(lowers, find=lambda *_: Finding.UNDECIDED)
    first, rows, stuck = [], [], 0
    for part, ((name, *at), runs) in enumerate(ends.groupby(["placement", "depth", "learning_rate"])):
        wide = runs.pivot(index="seed", columns="warmup", values="loss").reindex(columns=[none, longest])
        seeds = statements.excess(wide[none], wide[longest])
        found = over_seeds(seeds, "both lengths of warm-up"), len(seeds)
        lost, words = bool((runs.status == "stuck").all()), f"{PLACES[name]}, {at[0]} layers, rate {at[1]:g}"
        if name == "post":
            row = compare(words, *found, unknown if lost else lowers, unit=NATS, part=part)
            (first if tuple(at) == corner else rows).append(row)
            stuck += lost
        elif tuple(at) == corner:
            rows.append(compare(words, *found, role="control", unit=NATS))
    short = f"In {stuck} settings no post-norm run trains: the runs may be too short to tell."
    return Outcome((*first, *rows), " ".join(filter(None, [short * (stuck > 0), diverged(ends)])))


# The batch, and attention scores


def change_with_the_batch(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """The exponent of BatchNorm's change over the batch size, LayerNorm's largest change, BatchNorm's by padding."""
    table = tables["batch_dependence"]
    layernorm, batchnorm = (table[table.norm == norm] for norm in ("layernorm", "batchnorm"))
    others, padded = (batchnorm[batchnorm.effect == effect] for effect in ("others", "padding"))
    if layernorm.empty or others.batch_size.nunique() < 2:
        raise Untestable("The run lacks a norm, or has a single batch size.")
    found = {"batchnorm's exponent": exponents("batch_size", "change", others)}
    found["layernorm, largest change"] = layernorm.groupby("seed").change.max()
    for size, rows in others.groupby("batch_size"):
        found[f"batchnorm, {size} sequences"] = rows.groupby("seed").change.mean()
    for share, rows in padded.groupby("padding"):
        found[f"batchnorm, {share:.0%} of padding"] = rows.groupby("seed").change.mean()
    return Measured(pd.DataFrame(found))


def exponents(x: str, y: str, table: pd.DataFrame) -> pd.Series:
    """The exponent p of y ~ x^p, one value a seed."""
    return pd.Series({seed: statements.exponent(part[x], part[y]) for seed, part in table.groupby("seed")})


def random_scores(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of table score_scale on random queries and keys drawn from the distribution `source`."""
    part = table[table.source == source]
    if part.d_k.nunique() < 2:
        raise Untestable("The run has a single d_k.")
    return part


def softmax(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Per cent of the largest entropy of attention, and the trace of the softmax's Jacobian, at the largest d_k."""
    normal = random_scores(tables["score_scale"], "normal")
    means = (
        normal[normal.d_k == normal.d_k.max()]
        .groupby(["seed", "divided"])[["entropy_share", "gradient"]]
        .mean()
    )
    wide = means.assign(entropy_share=100 * means.entropy_share).unstack("divided")
    names = [f"{what} {how}" for what in ("entropy", "gradient") for how in ("without division", "divided")]
    return Measured(wide.set_axis(names, axis=1))


def score_exponents(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Exponents of the mean and the standard deviation of undivided scores over d_k, for components around 1."""
    ones = random_scores(tables["score_scale"], "normal_mean_1").query("not divided")
    both = {"mean": "score_mean", "standard deviation": "score_std"}
    return Measured(pd.DataFrame({name: exponents("d_k", column, ones) for name, column in both.items()}))


def divided_scores(random: bool, tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Standard deviations of the divided scores of trained language models with LayerNorm, by seed or by head."""
    table = tables["score_scale"][tables["score_scale"].divided]
    part = table[(table.source == "language_model") & (table.variant == "layernorm")]
    if part.empty:
        raise Untestable("The run has no scores of these models with LayerNorm.")
    if not random:
        return Measured(pd.DataFrame({"all heads": part.score_std}), random=False)
    normal = table[table.source == "normal"].groupby("seed").score_std.mean()
    found = {"layernorm, trained": part.groupby("seed").score_std.mean(), "standard normal vectors": normal}
    return Measured(pd.DataFrame({name: values for name, values in found.items() if len(values)}))


def _shape(unit: str, columns: tuple[str, ...]) -> Quantity:
    return Quantity(geometry, unit, columns=columns)


_GROWTH = ("pre, *", "post, *")
QUANTITIES = {
    "geometry": _shape("", GEOMETRY[:3]),
    "sphere": _shape(" off", GEOMETRY[3:]),
    "radius": Quantity(
        radius, " √n", words="difference from the radius √n", columns=RADII, thresholds=("CLOSE",)
    ),
    "missed_by_a_single_map": Quantity(
        missed,
        " %",
        words="variance that a single map misses",
        columns=("plain", "residual", "norm", "residual_norm", "residual, *", "norm, *"),
    ),
    "final_loss_gap": Quantity(
        final_loss_gap,
        NATS,
        words="final training loss, post-norm minus pre-norm, no warm-up",
        columns=("deepest, *", "shallowest, *"),
    ),
    "tuned_loss_gap": Quantity(
        tuned_loss_gap,
        NATS,
        words="final training loss, post-norm minus pre-norm, best settings",
        columns=("deepest", "shallowest"),
    ),
    "gradient_slope": Quantity(
        lambda *arguments: gradient_growth(False, *arguments),
        " decades a layer",
        words="decades by which the gradient norm grows from layer to layer",
        columns=_GROWTH,
    ),
    "gradient_growth": Quantity(
        lambda *arguments: gradient_growth(True, *arguments),
        " decades",
        "decades by which the gradient norm grows over all layers",
        _GROWTH,
    ),
    "largest_over_smallest_size": Quantity(
        sizes, RATIO, words="largest over smallest root mean square", columns=_GROWTH
    ),
    "first_gradient_change": Quantity(
        first_gradient_change,
        " decades",
        words="decades by which the first layer's gradient changes with depth",
        columns=("with residual connections, *", "without residual connections, *"),
    ),
    "change_with_the_batch": Quantity(
        change_with_the_batch,
        columns=("batchnorm's exponent", "layernorm, largest change", "batchnorm, *"),
    ),
    "softmax_at_the_largest_d_k": Quantity(
        softmax, " %", "entropy of attention, per cent of the largest", ("entropy *",)
    ),
    "softmax_gradient": Quantity(softmax, "", "trace of the softmax's Jacobian", ("gradient *",)),
    "score_exponents": Quantity(score_exponents, columns=("mean", "standard deviation")),
    "divided_scores": Quantity(
        lambda *arguments: divided_scores(True, *arguments),
        columns=("layernorm, trained", "standard normal vectors"),
    ),
    "divided_scores_of_a_head": Quantity(
        lambda *arguments: divided_scores(False, *arguments),
        "",
        "standard deviation of the divided scores of a head",
        ("all heads",),
    ),
}
TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (residuals_carry_positions, needs_warm_up)
}
"""The functions that entries of documents.yaml name under `test`."""
