"""What lecture notes, and Xiong et al. 2020, say about LayerNorm before each part of a layer or after it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import (
    excess,
    final_losses,
    first_layer_change,
    gradient_slopes,
    position_accuracies,
    run_ends,
    scale_ratios,
    tuned,
)
from layernorm_roles.evidence.claims.claim import (
    CAUSE,
    RATIO,
    UNTRAINED,
    Asked,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    more_than,
    no_more_than,
    over_seeds,
    positive,
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.rules import OPPOSITE, Finding, above, direction

NATS = " nats"
PLACES = {"pre": "pre-norm", "post": "post-norm", "none": "no LayerNorm"}
"""In words, where a network has its LayerNorms."""


def both_placements(table: pd.DataFrame) -> None:
    """Raise Untestable if pre-norm or post-norm is missing."""
    missing = {"pre", "post"} - set(table.placement)
    if missing:
        raise Untestable(f"The run has no {' and no '.join(sorted(missing))}-norm.")


def diverged(runs: pd.DataFrame) -> str:
    """A sentence about runs whose loss was not finite at the end; empty if there is none."""
    number = int(np.isinf(runs.loss).sum())
    return f"{number} of these runs diverged and count as infinitely bad." if number else ""


def worse() -> Asked:
    """A loss above another one; absent if both diverged in every run, as `excess` has it."""
    return replace(
        positive(), find=lambda gap: Finding.ABSENT if gap == (0.0, 0.0, 0.0) else direction(gap)
    )


def beyond(estimate: Estimate, threshold: float) -> Finding:
    """Whether the whole interval lies further from 0 than the threshold, on the side of the mean."""
    return above(estimate if estimate.mean >= 0 else estimate.below(0.0), threshold)


def further(threshold: float) -> Asked:
    """An interval further from 0 than a threshold, up or down."""
    return Asked("more than {}, up or down", lambda estimate: beyond(estimate, threshold), threshold)


def no_further(threshold: float) -> Asked:
    """An interval no further from 0 than a threshold, up or down."""
    return Asked("at most {}, up or down", lambda estimate: OPPOSITE[beyond(estimate, threshold)], threshold)


def gap(post: pd.Series, pre: pd.Series, depth: int) -> tuple[Estimate, int]:
    """Post-norm's loss minus pre-norm's with its interval, and the number of pairs; Untestable with fewer than two."""
    found = excess(post, pre)
    return over_seeds(found, f"{depth} layers"), len(found)


def stable(tables: Tables) -> Outcome:
    """Whether post-norm ends with a higher loss in the deepest networks: a part for each learning rate."""
    placement = tables["placement"]
    both_placements(placement)
    losses, ends = final_losses(placement), run_ends(placement)
    bare = losses[losses.warmup == losses.warmup.min()]
    deep, shallow = int(bare.depth.max()), int(bare.depth.min())
    of_depths = bare[bare.depth.isin([deep, shallow])]
    by_rate = {
        key: gap(part.post, part.pre, key[0]) for key, part in of_depths.groupby(["depth", "learning_rate"])
    }
    means = {}
    for depth in (deep, shallow):
        part = bare[bare.depth == depth]
        mean = over_seeds(excess(part.post, part.pre).groupby(part.seed).mean(), f"{depth} layers")
        means[depth] = mean, bare.seed.nunique()
    words = "post-norm minus pre-norm, {} layers"
    rows = [compare(f"{words.format(deep)}, mean over rates", *means[deep], unit=NATS)]
    for part, ((depth, rate), found) in enumerate(sorted(by_rate.items(), reverse=True)):
        asked = (worse(), "effect", NATS, "", part) if depth == deep else (None, "context", NATS)
        rows.append(compare(f"{words.format(depth)}, rate {rate:g}", *found, *asked))
    rows.append(compare(f"{words.format(shallow)}, mean over rates", *means[shallow], role="control", unit=NATS))
    for name, states in ends[ends.depth == deep].groupby("placement").status:
        failed = Estimate(float((states != "trained").sum()), np.nan, np.nan)
        runs = f"{name}-norm, {deep} layers"
        rows.append(compare(runs, failed, len(states), role="context", statistic="runs that did not train"))
    return Outcome(tuple(rows), diverged(ends[ends.depth.isin([deep, shallow])]))


def stable_if_tuned(tables: Tables) -> Outcome:
    """Whether post-norm ends with a higher loss in the deepest networks, each placement at its best setting."""
    placement = tables["placement"]
    both_placements(placement)
    ends = run_ends(placement)
    if ends.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    gaps, deep, shallow = {}, int(ends.depth.max()), int(ends.depth.min())
    for depth in (deep, shallow):
        runs = tuned(ends, depth)
        if depth == deep:
            for name, chosen in runs.groupby("placement"):
                refuse_rate_at_grid_end(chosen.at_end, chosen.learning_rate, f"{PLACES[name]} with {depth} layers")
        losses = runs.pivot(index="seed", columns="placement", values="loss")
        gaps[depth] = gap(losses.post, losses.pre, depth)
    words = "post-norm minus pre-norm, {} layers"
    return Outcome(
        (
            compare(words.format(deep), gaps[deep][0], ends.seed.nunique(), worse(), unit=NATS),
            compare(words.format(shallow), *gaps[shallow], role="control", unit=NATS),
        )
    )


def deepest_without_warm_up(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the runs of the deepest networks without warm-up, or with the shortest one."""
    bare = table[table.warmup == table.warmup.min()]
    return bare[bare.depth == bare.depth.max()]


def steepness(slopes: pd.DataFrame, depth: int, decades: float, when: str, part: int) -> list[Comparison]:
    """Whether gradients vanish or explode from layer to layer in post-norm networks, and not in pre-norm ones.

    `slopes` has the columns placement, learning_rate, seed and slope (decades a layer), of networks of `depth` layers;
    over all of them the gradient must change by more than `decades`, at every learning rate. `when` says in words when
    the gradients were measured.
    """
    both_placements(slopes)
    if depth < 2:
        raise Untestable("The run has no network of several layers.")
    rates = sorted(slopes.learning_rate.unique())
    limit = decades / (depth - 1)
    asked = {"post": further(limit), "pre": no_further(limit)}
    rows = []
    for name in ("post", "pre"):
        for at in [[rate] for rate in rates] + [rates]:
            of_name = slopes[(slopes.placement == name) & slopes.learning_rate.isin(at)]
            seeds = of_name.groupby("seed").slope.mean()
            single = f", rate {at[0]:g}" if at[0] else ""
            words = f"{name}-norm {when}{single if at is not rates else ', mean over rates'}"
            found = (over_seeds(seeds, f"{name}-norm gradients"), len(seeds))
            mean = {"role": "effect" if name == "post" else "control", "part": None}
            one = {"asked": asked[name], "part": part}
            rows.append(compare(words, *found, unit=" decades a layer", **(mean if at is rates else one)))
    return rows


def vanishing(tables: Tables, decades: float) -> Outcome:
    """Whether gradients vanish or explode in deep post-norm networks and not in pre-norm ones, at first and later."""
    gradients = tables["untrained_gradients"]
    untrained = gradients[gradients.residual & (gradients.depth == gradients.depth.max())]
    deep = deepest_without_warm_up(tables["placement_gradients"])
    at_first = steepness(
        gradient_slopes(untrained.assign(learning_rate=0.0, warmup=0, step=0)),
        int(untrained.depth.max()),
        decades,
        "at initialisation",
        0,
    )
    slopes = gradient_slopes(deep[deep.step > 0])
    later = steepness(slopes, int(deep.depth.max()), decades, "in training", 1)
    means = [row for row in later if row.part is None]
    first = replace(means[0], n_runs=slopes.seed.nunique())
    return Outcome((first, *(row for row in at_first + later if row.part is not None), means[1]))


def _ratio_by_seed(ratios: pd.DataFrame, placement: str, trained: bool) -> tuple[Estimate, int]:
    """Logarithm of the largest over the smallest size in the deepest networks without warm-up, and the number of seeds.

    At initialisation or after training; of the learning rates the one at which the ratio is largest.
    """
    ratios = ratios[(ratios.placement == placement) & ((ratios.step > 0) == trained)]
    largest = ratios.groupby("seed").ratio.max()
    return over_seeds(np.log(largest), f"{placement}-norm networks"), len(largest)


def one_scale(tables: Tables, times: float) -> Outcome:
    """Whether the parts of deep networks receive inputs of one size in pre-norm, and of varying size in post-norm."""
    scales = deepest_without_warm_up(tables["placement_scales"])
    both_placements(scales)
    received, stream = (scale_ratios(scales, column) for column in ("input_rms", "stream_rms"))
    asked = {"pre": no_more_than(np.log(times)), "post": more_than(np.log(times))}
    rows = []
    for part, name in enumerate(("pre", "post")):
        for when in ("after", "before"):
            found = _ratio_by_seed(received, name, when == "after")
            role = "control" if name == "post" else "effect"
            rows.append(compare(f"{name}-norm {when} training", *found, asked[name], role, RATIO, part=part))
    varies, statistic = _ratio_by_seed(stream, "pre", trained=True), "largest over smallest size of the residual stream"
    cause = compare("pre-norm after training", *varies, asked["post"], "control", RATIO, statistic)
    first = replace(rows[0], n_runs=scales.seed.nunique())
    return Outcome((first, *rows[1:], cause))


def residuals_carry_gradients(tables: Tables, decades: float) -> Outcome:
    """Whether the first layer's gradient keeps its size in deep networks with residual connections, and only there.

    A part for each place of the LayerNorm, and one for networks without any.
    """
    gradients = tables["untrained_gradients"]
    if gradients.depth.nunique() < 2:
        raise Untestable("The run has untrained networks of a single depth.")
    change = first_layer_change(gradients).set_index(["placement", "residual", "seed"]).decades.sort_index()
    n, rows = gradients.seed.nunique(), []
    names = [name for name in PLACES if name in change.index.get_level_values("placement")]
    for residual, words in ((True, "with"), (False, "without")):
        for part, name in enumerate(names):
            found = over_seeds(change[name, residual], f"{PLACES[name]} networks")
            asked = (no_further if residual else further)(decades)
            role, counts = ("effect", part) if residual else ("control", CAUSE)
            what = f"{PLACES[name]}, {words} residual connections"
            rows.append(compare(what, found, n, asked, role, " decades", part=counts))
    return Outcome(tuple(rows))


def residuals_carry_positions(tables: Tables) -> Outcome:
    """Whether a probe of the stream names more positions with residual connections, by more than guessing names."""
    probe = tables["position_probe"]
    shares = position_accuracies(probe)
    pre = shares[shares.placement == "pre"]
    deep = pre[pre.layer == pre.layer.max()]
    if deep.residual.nunique() < 2:
        raise Untestable("The run has no pre-norm networks with residual connections and without.")
    wide = deep.pivot(index=["trained", "seed"], columns="residual", values="percent").dropna()
    gaps, n, rows = wide[True] - wide[False], deep.seed.nunique(), []
    by_guessing = more_than(100 / probe.context_length.max())
    words = "with residual connections minus without"
    for when, kind in (("trained", True), ("untrained", False)):
        seeds = gaps[gaps.index.get_level_values("trained") == kind].droplevel("trained")
        found, asked = over_seeds(seeds, "both networks"), by_guessing if kind else None
        rows.append(compare(f"{words}, {when}", found, n, asked, "effect" if kind else "control", " points"))
    for kind in (True, False):
        named = wide.loc[True][kind]
        found, which = Estimate.of_any(named), "with" if kind else "without"
        rows.append(compare(f"trained, {which} residual connections", found, len(named), role="context", unit=" %"))
    passes = UNTRAINED if by_guessing.find(rows[1].estimate) == Finding.SEEN else None
    return Outcome(tuple(rows), also_passed_by=passes)


def needs_warm_up(tables: Tables, nats: float) -> Outcome:
    """Whether a warm-up lowers post-norm's final loss by more than `nats`: a part for each depth and learning rate.

    Where no run trains, with warm-up or without, the runs cannot tell: they may be too short.
    """
    ends = run_ends(tables["placement"])
    both_placements(ends)
    if ends.warmup.nunique() < 2:
        raise Untestable("The run has a single length of warm-up.")
    none, longest = int(ends.warmup.min()), int(ends.warmup.max())
    deep, slow, lowers = ends.depth.max(), ends.learning_rate.min(), more_than(nats)
    unknown = replace(lowers, find=lambda _: Finding.UNDECIDED)
    first, rows, control, stuck = [], [], [], 0
    for part, ((name, depth, rate), runs) in enumerate(ends.groupby(["placement", "depth", "learning_rate"])):
        wide = runs.pivot(index="seed", columns="warmup", values="loss").reindex(columns=[none, longest])
        saved = over_seeds(excess(wide[none], wide[longest]), "both lengths of warm-up")
        lost = bool((runs.status == "stuck").all()) and name == "post"
        stuck += lost
        words, n = f"{name}-norm, {depth} layers, rate {rate:g}", ends.seed.nunique()
        if name == "post":
            row = compare(words, saved, n, unknown if lost else lowers, unit=NATS, part=part)
            (first if (depth, rate) == (deep, slow) else rows).append(row)
        elif (depth, rate) == (deep, slow):
            control.append(compare(words, saved, n, role="control", unit=NATS))
    short = f"In {stuck} of {len(first + rows)} settings no post-norm run trains: the runs may be too short to tell."
    sentences = [short] * (stuck > 0) + [diverged(ends)]
    return Outcome((*first, *rows, *control), " ".join(filter(None, sentences)))


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function
    for function in (
        stable,
        stable_if_tuned,
        vanishing,
        one_scale,
        residuals_carry_gradients,
        residuals_carry_positions,
        needs_warm_up,
    )
}
"""The functions that entries of placement.yaml name under `test`."""
