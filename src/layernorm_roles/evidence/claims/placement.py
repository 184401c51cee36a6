"""What lecture notes, and Xiong et al. 2020, say about LayerNorm before each part of a layer or after it."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import excess, final_losses, gradient_ratios, run_ends
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
    over_seeds,
    statement,
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
    parts = [above(gaps[deep, rate], 0.0) for rate in rates]

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
    if {Finding.SEEN, Finding.ABSENT} <= set(parts):
        reason += " It depends on the learning rate."
    measured, control = gaps[deep, rates[0]], gaps[shallow, rates[0]]
    return statement(parts, measured, bare.seed.nunique(), reason, control)


def vanishing(tables: Tables) -> Outcome:
    """Whether gradients vanish or explode in deep post-norm networks, at the first step and at the last one.

    In the deepest networks, with the smaller learning rate and without warm-up. Only if pre-norm's gradients do
    neither is the placement of the norm the cause.
    """
    gradients = tables["placement_gradients"]
    both_placements(gradients)
    deep = gradients[
        (gradients.warmup == gradients.warmup.min()) & (gradients.depth == gradients.depth.max())
    ]
    deep = deep[deep.learning_rate == deep.learning_rate.min()]
    ratios, first, last = gradient_ratios(deep), int(deep.step.min()), int(deep.step.max())

    def decades(name: str, step: int) -> Estimate:
        part = ratios[(ratios.placement == name) & (ratios.step == step)]
        return over_seeds(part.decades, f"{name}-norm gradients")

    def tenfold(estimate: Estimate) -> Finding:
        return above(estimate if estimate.mean >= 0 else estimate.below(0.0), rules.TENFOLD)

    def as_factor(estimate: Estimate) -> str:
        return f"{estimate.map(lambda power: 10**power):.2g}"

    post, pre = ({step: decades(name, step) for step in (first, last)} for name in ("post", "pre"))
    parts = [tenfold(estimate) for estimate in post.values()]
    cause = all_of(*(OPPOSITE[tenfold(estimate)] for estimate in pre.values()))
    reason = (
        f"With {deep.depth.max()} layers the first layer's gradient is, relative to the last layer's, "
        f"{as_factor(post[first])} in post-norm at step {first} and {as_factor(post[last])} at step {last}; "
        f"{as_factor(pre[first])} and {as_factor(pre[last])} in pre-norm (rate {deep.learning_rate.min():g}, no "
        "warm-up)."
    )
    return statement(parts, post[last], deep.seed.nunique(), reason, pre[last], cause)


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


TESTS = {"placement": stable, "placement_gradients": vanishing, "placement_warm_up": needs_warm_up}
