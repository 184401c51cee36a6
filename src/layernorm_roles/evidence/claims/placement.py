"""What lecture notes, and Xiong et al. 2020, say about LayerNorm before each part of a layer or after it."""

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
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    above,
    all_of,
    direction,
    inner,
    over_seeds,
    statement,
    untrained_too,
)


def both_placements(table: pd.DataFrame) -> None:
    """Raise Untestable if pre-norm or post-norm is missing."""
    missing = {"pre", "post"} - set(table.placement)
    if missing:
        raise Untestable(f"The run has no {' and no '.join(sorted(missing))}-norm.")


def diverged(runs: pd.DataFrame) -> str:
    """A sentence about runs whose loss was not finite at the end; empty if there is none."""
    number = int(np.isinf(runs.loss).sum())
    return f" {number} of these runs diverged and count as infinitely bad." if number else ""


def worse(gap: Estimate) -> Finding:
    """Whether a loss lies above another one by `gap`; absent if both diverged in every run, as `excess` has it."""
    return Finding.ABSENT if gap == (0.0, 0.0, 0.0) else direction(gap)


def stable(tables: Tables) -> Outcome:
    """Whether post-norm ends with a higher loss in the deepest networks: a part for each learning rate."""
    placement = tables["placement"]
    both_placements(placement)
    losses, ends = final_losses(placement), run_ends(placement)
    bare = losses[losses.warmup == losses.warmup.min()]
    deep, shallow, rates = int(bare.depth.max()), int(bare.depth.min()), sorted(bare.learning_rate.unique())
    gaps = {
        (depth, rate): over_seeds(excess(part.post, part.pre), f"{depth} layers")
        for (depth, rate), part in bare[bare.depth.isin([deep, shallow])].groupby(["depth", "learning_rate"])
    }
    parts = [worse(gaps[deep, rate]) for rate in rates]

    def at_rates(depth: int) -> str:
        return " and ".join(f"{gaps[depth, rate]:+.2f} nats at rate {rate:g}" for rate in rates)

    reason = (
        f"With {deep} layers and without warm-up post-norm's final training loss is above pre-norm's by "
        f"{at_rates(deep)}; with {shallow} layers by {at_rates(shallow)} ({placement.step.max() + 1} steps)."
    )
    for name, states in ends[ends.depth == deep].groupby("placement").status:
        failed = (states != "trained").sum()
        reason += f" Of {len(states)} {name}-norm runs of {deep} layers {failed} did not train."
    reason += diverged(ends[ends.depth.isin([deep, shallow])])
    if {Finding.SEEN, Finding.REVERSED} <= set(parts):
        reason += " It depends on the learning rate."
    measured, control = (
        over_seeds(excess(part.post, part.pre).groupby(part.seed).mean(), f"{depth} layers")
        for depth, part in ((depth, bare[bare.depth == depth]) for depth in (deep, shallow))
    )
    return statement(parts, measured, bare.seed.nunique(), reason, control)


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
                inner(chosen.at_end, chosen.learning_rate, f"{PLACES[name]} with {depth} layers")
        losses = runs.pivot(index="seed", columns="placement", values="loss")
        gaps[depth] = over_seeds(excess(losses.post, losses.pre), f"{depth} layers")
    stuck = ends[(ends.depth == deep) & (ends.placement == "post")].status == "stuck"
    reason = (
        f"Each with the learning rate and warm-up that are best for the other half of the seeds, post-norm's final "
        f"training loss is {gaps[deep]:+.2f} nats above pre-norm's with {deep} layers and {gaps[shallow]:+.2f} with "
        f"{shallow} ({ends.learning_rate.nunique()} rates, {ends.warmup.nunique()} lengths of warm-up). Of post-norm's "
        f"{len(stuck)} runs of {deep} layers {stuck.sum()} learn no more than the frequencies of tokens."
    )
    return statement([worse(gaps[deep])], gaps[deep], ends.seed.nunique(), reason, gaps[shallow])


PLACES = {"pre": "pre-norm", "post": "post-norm", "none": "no LayerNorm"}
"""In words, where a network has its LayerNorms."""


def deepest_without_warm_up(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the runs of the deepest networks without warm-up, or with the shortest one."""
    bare = table[table.warmup == table.warmup.min()]
    return bare[bare.depth == bare.depth.max()]


def beyond(estimate: Estimate, threshold: float) -> Finding:
    """Whether the whole interval lies further from 0 than the threshold, on the side of the mean."""
    return above(estimate if estimate.mean >= 0 else estimate.below(0.0), threshold)


def steepness(slopes: pd.DataFrame, depth: int, when: str) -> tuple[Finding, Estimate, Estimate, str]:
    """Whether gradients vanish or explode from layer to layer in post-norm networks, and not in pre-norm ones.

    `slopes` has the columns placement, learning_rate, seed and slope (decades a layer), of networks of `depth` layers;
    it must be so at every learning rate. `when` says in words when the gradients were measured. Returns the finding,
    the slopes of post-norm and of pre-norm, and a sentence.
    """
    both_placements(slopes)
    if depth < 2:
        raise Untestable("The run has no network of several layers.")
    rates, tenfold = sorted(slopes.learning_rate.unique()), rules.TENFOLD / (depth - 1)

    def slope(name: str, *at: float) -> Estimate:
        part = slopes[(slopes.placement == name) & slopes.learning_rate.isin(at)]
        return over_seeds(part.groupby("seed").slope.mean(), f"{name}-norm gradients")

    post, pre = ({rate: slope(name, rate) for rate in rates} for name in ("post", "pre"))
    steep = all_of(
        *(beyond(estimate, tenfold) for estimate in post.values()),
        *(OPPOSITE[beyond(estimate, tenfold)] for estimate in pre.values()),
    )

    def listed(estimates: dict[float, Estimate]) -> str:
        at = {rate: f" at rate {rate:g}" if rate else "" for rate in rates}
        return " and ".join(f"{estimate:+.3f}{at[rate]}" for rate, estimate in estimates.items())

    sentence = (
        f"From one of {depth} layers to the next the gradient norm grows by so many decades {when}: post-norm "
        f"{listed(post)}, pre-norm {listed(pre)}; a factor of 10 over all layers is {tenfold:.3f}."
    )
    return steep, slope("post", *rates), slope("pre", *rates), sentence


def vanishing(tables: Tables) -> Outcome:
    """Whether gradients vanish or explode in deep post-norm networks and not in pre-norm ones, at first and later."""
    gradients = tables["untrained_gradients"]
    untrained = gradients[gradients.residual & (gradients.depth == gradients.depth.max())]
    deep = deepest_without_warm_up(tables["placement_gradients"])
    first, _, _, at_first = steepness(
        gradient_slopes(untrained.assign(learning_rate=0.0, warmup=0, step=0)),
        int(untrained.depth.max()),
        "at initialisation",
    )
    slopes = gradient_slopes(deep[deep.step > 0])
    later, post, pre, on_average = steepness(slopes, int(deep.depth.max()), "on average over the training")
    return statement([first, later], post, slopes.seed.nunique(), f"{at_first} {on_average}", pre)


def _ratio_by_seed(ratios: pd.DataFrame, placement: str, trained: bool) -> Estimate:
    """The largest over the smallest root mean square in the deepest networks without warm-up, over seeds.

    At initialisation or after training; of the learning rates the one at which the ratio is largest.
    """
    ratios = ratios[(ratios.placement == placement) & ((ratios.step > 0) == trained)]
    largest = ratios.groupby("seed").ratio.max()
    return over_seeds(np.log(largest), f"{placement}-norm networks").map(np.exp)


def one_scale(tables: Tables) -> Outcome:
    """Whether the parts of deep networks receive inputs of one size in pre-norm, and of varying size in post-norm."""
    scales = deepest_without_warm_up(tables["placement_scales"])
    both_placements(scales)
    received, stream = (scale_ratios(scales, column) for column in ("input_rms", "stream_rms"))
    pre, post = (
        [_ratio_by_seed(received, name, trained) for trained in (False, True)] for name in ("pre", "post")
    )
    varies = _ratio_by_seed(stream, "pre", trained=True)
    parts = [
        all_of(*(OPPOSITE[above(ratio, rules.ONE_SCALE)] for ratio in pre)),
        all_of(*(above(ratio, rules.ONE_SCALE) for ratio in post)),
    ]
    reason = (
        f"In pre-norm networks of {scales.depth.max()} layers the largest root mean square of a part's input is "
        f"{pre[0]:.2f} times the smallest at first and {pre[1]:.2f} times after training; the residual stream "
        f"varies by {varies:.2f} times. In post-norm the inputs vary by {post[0]:.2f} and {post[1]:.2f} times: "
        "what a part receives there comes out of the LayerNorm before it, but for the first part, which receives the "
        "embeddings. Of the learning rates the one counts at which the ratio is largest."
    )
    cause = above(varies, rules.ONE_SCALE)
    return statement(parts, pre[1], scales.seed.nunique(), reason, post[1], cause)


def residuals_carry_gradients(tables: Tables) -> Outcome:
    """Whether the first layer's gradient keeps its size in deep networks with residual connections, and only there.

    A part for each place of the LayerNorm, and one for networks without any.
    """
    gradients = tables["untrained_gradients"]
    if gradients.depth.nunique() < 2:
        raise Untestable("The run has untrained networks of a single depth.")
    change = first_layer_change(gradients).set_index(["placement", "residual", "seed"]).decades.sort_index()
    names = [name for name in PLACES if name in change.index.get_level_values("placement")]
    with_, without = (
        {name: over_seeds(change[name, residual], f"{PLACES[name]} networks") for name in names}
        for residual in (True, False)
    )
    parts = [OPPOSITE[beyond(estimate, rules.TENFOLD)] for estimate in with_.values()]
    needed = {name: beyond(estimate, rules.TENFOLD) for name, estimate in without.items()}
    shallow, deep = gradients.depth.min(), gradients.depth.max()
    listed = "; ".join(
        f"{PLACES[name]} {with_[name]:+.1f} with residual connections and {without[name]:+.1f} without"
        for name in names
    )
    reason = (
        f"From {shallow} to {deep} layers the first layer's gradient changes by so many decades: {listed}."
    )
    for name, part in zip(names, parts, strict=True):
        if part == Finding.ABSENT:
            how = "explodes" if with_[name].mean > 0 else "vanishes"
            reason += f" With residual connections and {PLACES[name]} it {how}."
        if needed[name] == Finding.ABSENT:
            reason += f" With {PLACES[name]} it keeps its size without residual connections, too."
    first = names[0]
    cause = all_of(*needed.values())
    return statement(parts, with_[first], gradients.seed.nunique(), reason, without[first], cause)


def residuals_carry_positions(tables: Tables) -> Outcome:
    """Whether a probe of the stream names more positions with residual connections, by more than guessing names."""
    probe = tables["position_probe"]
    shares = position_accuracies(probe)
    pre = shares[shares.placement == "pre"]
    deep = pre[pre.layer == pre.layer.max()]
    if deep.residual.nunique() < 2:
        raise Untestable("The run has no pre-norm networks with residual connections and without.")
    wide = deep.pivot(index=["trained", "seed"], columns="residual", values="percent").dropna()
    gaps = wide[True] - wide[False]
    trained, untrained = (
        over_seeds(gaps[gaps.index.get_level_values("trained") == kind].droplevel("trained"), "both networks")
        for kind in (True, False)
    )
    chance, named = 100 / probe.context_length.max(), wide.groupby("trained").mean()
    reason = (
        f"Before layer {deep.layer.max()} a linear probe names the position of {named.loc[True, True]:.0f} % of the "
        f"tokens in trained networks with residual connections and of {named.loc[True, False]:.0f} % without; "
        f"untrained, {named.loc[False, True]:.0f} % and {named.loc[False, False]:.0f} %. Guessing names {chance:.2g} %."
    )
    passes = untrained_too(above(untrained, chance) == Finding.SEEN)
    found = [above(trained, chance)]
    return statement(found, trained, deep.seed.nunique(), reason, untrained, also_passed_by=passes)


def needs_warm_up(tables: Tables) -> Outcome:
    """Whether a warm-up lowers post-norm's final loss: a part for each depth and learning rate.

    Where no run trains, with warm-up or without, the runs cannot tell: they may be too short.
    """
    ends = run_ends(tables["placement"])
    both_placements(ends)
    if ends.warmup.nunique() < 2:
        raise Untestable("The run has a single length of warm-up.")
    none, longest = int(ends.warmup.min()), int(ends.warmup.max())
    cells = dict(list(ends.groupby(["placement", "depth", "learning_rate"])))
    stuck = {cell for cell, runs in cells.items() if (runs.status == "stuck").all()}
    gains = {cell: _gain(runs, none, longest) for cell, runs in cells.items()}
    post = {cell: gain for cell, gain in gains.items() if cell[0] == "post"}
    parts = [
        Finding.UNDECIDED if cell in stuck else above(gain, rules.WARM_UP) for cell, gain in post.items()
    ]
    (_, depth, rate), best = max(post.items(), key=lambda item: item[1].mean)
    deep, slow = ends.depth.max(), ends.learning_rate.min()
    reason = (
        f"{longest} steps of warm-up lower post-norm's final loss by more than {rules.WARM_UP:g} nats in "
        f"{parts.count(Finding.SEEN)} of {len(parts)} settings of depth and rate, at most by {best:+.2f} nats "
        f"({depth} layers, rate {rate:g}). In {len(stuck & set(post))} settings no post-norm run trains, with "
        "warm-up or without: there the runs may be too short to tell."
    )
    reason += diverged(ends)
    control = gains.get(("pre", deep, slow), NOTHING)
    return statement(parts, gains["post", deep, slow], ends.seed.nunique(), reason, control)


def _gain(runs: pd.DataFrame, none: int, longest: int) -> Estimate:
    """By how much the longest warm-up lowers the final loss, over seeds."""
    wide = runs.pivot(index="seed", columns="warmup", values="loss").reindex(columns=[none, longest])
    return over_seeds(excess(wide[none], wide[longest]), "both lengths of warm-up")


TESTS = {
    "placement": stable,
    "placement_tuned": stable_if_tuned,
    "placement_gradients": vanishing,
    "placement_warm_up": needs_warm_up,
    "placement_scales": one_scale,
    "residual_connections": residuals_carry_gradients,
    "residual_position": residuals_carry_positions,
}
