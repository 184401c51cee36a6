"""What an essay, a question and lecture notes say about LayerNorm, from the statements' tables."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    OPPOSITE,
    Finding,
    Outcome,
    Untestable,
    above,
    all_of,
    over_seeds,
)
from layernorm_roles.evidence.statement_findings import Estimate, power

Tables = Mapping[str, pd.DataFrame]


def where(holds: bool) -> Finding:
    """For what has no spread: true or false."""
    return Finding.SEEN if holds else Finding.ABSENT


def geometry(tables: Tables) -> Outcome:
    table = tables["geometry"]
    difference = table[
        (table.norm == "layernorm")
        & (table.dtype == "float64")
        & (table.eps_placement == "inside")
        & (table.offset == 0)
        & (table.quantity == "difference_from_torch")
    ]
    shape = table[table.input_norm.isna()].pivot(index=["norm", "n"], columns="quantity", values="value")
    if difference.empty or not {"layernorm", "rmsnorm"} <= set(shape.index.unique("norm")):
        raise Untestable("The run compares no float64 LayerNorm with torch's, or has no RMSNorm.")
    by_n = difference.groupby("n").value.max()
    ours, control = shape.loc["layernorm"], shape.loc["rmsnorm"]
    deviation = ours[["axes_deviation", "axes_cosine", "centre_deviation"]].max().max()
    own = all_of(
        where(by_n.max() <= rules.ROUNDING),
        where(deviation <= rules.ROUNDING),
        where((ours["rank"] == ours.index - 1).all()),
    )
    isolated = where((control["rank"] == control.index).all())
    reason = (
        f"h(g(f(x))) differs from torch's layer_norm by at most {by_n.max():.0e} in float64, n = "
        f"{by_n.index.min()} to {by_n.index.max()}; the outputs lie on the predicted ellipsoid to "
        f"{deviation:.0e} and have rank n - 1, RMSNorm's rank n. Nothing is random but the inputs: low and "
        "high are the range over n."
    )
    measured = Estimate(by_n.max(), by_n.min(), by_n.max())
    return Outcome(rules.verdict(own, isolated), measured, 1, reason)


def errors(fusion: pd.DataFrame, arrangement: str) -> Estimate:
    """Per cent of the held-out variance that a single map of the heads misses: random weights, the widest stream."""
    part = fusion[(fusion.source == "random") & (fusion.d == fusion.d_heads) & (fusion.inputs == "heads")]
    part = part[(part.d == part.d.max()) & (part.arrangement == arrangement)]
    return over_seeds(100 * part.groupby("seed").error.mean(), f"the arrangement {arrangement}")


def trained(fusion: pd.DataFrame, arrangement: str) -> str:
    part = fusion[
        (fusion.source != "random") & (fusion.arrangement == arrangement) & (fusion.inputs == "heads")
    ]
    means = 100 * part.groupby("seed").error.mean()
    if means.empty:
        return ""
    return f"; {Estimate.of(means):.1f} % in the trained language models" if len(means) > 1 else ""


def needs_residual(tables: Tables) -> Outcome:
    fusion = tables["fusion"]
    residual, plain = errors(fusion, "residual"), errors(fusion, "plain")
    own, isolated = above(residual, rules.ZERO), where(plain.high <= 100 * rules.ROUNDING)
    reason = (
        f"With a residual and no LayerNorm the best single map of the heads misses {residual:.1f} % of the "
        f"variance{trained(fusion, 'residual')}; with nothing between the two matrices it misses "
        f"{plain.mean:.0e} %."
    )
    return _of_fusion(fusion, own, isolated, residual, reason)


def redundant_without_norm(tables: Tables) -> Outcome:
    fusion = tables["fusion"]
    dropped, plain = errors(fusion, "residual"), errors(fusion, "plain")
    norm, kept = errors(fusion, "norm"), errors(fusion, "residual_norm")
    own = OPPOSITE[above(dropped, rules.ZERO)]
    isolated = where(plain.high <= 100 * rules.ROUNDING)
    reason = (
        f"With the LayerNorm dropped and the residual kept, a single map of the heads misses {dropped:.1f} "
        f"% of the variance{trained(fusion, 'residual')}; with both kept, {kept:.1f} %. A LayerNorm without "
        f"a residual makes it miss {norm:.2f} %, nothing between them {plain.mean:.0e} %: the residual is "
        "the reason."
    )
    return _of_fusion(fusion, own, isolated, dropped, reason)


def _of_fusion(
    fusion: pd.DataFrame, own: Finding, isolated: Finding, measured: Estimate, reason: str
) -> Outcome:
    seeds = fusion[fusion.source == "random"].seed.nunique()
    return Outcome(rules.verdict(own, isolated), measured, seeds, reason + rules.undecided(own, isolated))


def final_losses(placement: pd.DataFrame) -> pd.DataFrame:
    """depth, learning_rate, warmup, seed, one column a placement: mean training loss of the last tenth of the steps.

    A loss that is not finite counts as that of token frequencies, to which a run could always have fallen back.
    """
    steps = placement.step.max() + 1
    end = placement[placement.step >= steps - max(1, steps // 10)]
    end = end.assign(train_loss=end.train_loss.where(np.isfinite(end.train_loss), end.unigram_loss))
    keys = ["depth", "learning_rate", "warmup", "seed"]
    return end.pivot_table(index=keys, columns="placement", values="train_loss", aggfunc="mean").reset_index()


def both_placements(table: pd.DataFrame) -> None:
    missing = {"pre", "post"} - set(table.placement)
    if missing:
        raise Untestable(f"The run has no {' and no '.join(sorted(missing))}-norm.")


def stable(tables: Tables) -> Outcome:
    placement = tables["placement"]
    both_placements(placement)
    losses = final_losses(placement)
    bare = losses[losses.warmup == losses.warmup.min()]
    deep, shallow = bare.depth.max(), bare.depth.min()
    gaps = {
        (depth, rate): over_seeds((part.post - part.pre).dropna(), f"{depth} layers")
        for (depth, rate), part in bare[bare.depth.isin([deep, shallow])].groupby(["depth", "learning_rate"])
    }
    rates = sorted(bare.learning_rate.unique())
    own = all_of(*(above(gaps[deep, rate], 0) for rate in rates))

    def told(depth: int) -> str:
        return " and ".join(f"{gaps[depth, rate]:+.2f} nats at rate {rate:g}" for rate in rates)

    reason = (
        f"With {deep} layers and without warm-up post-norm's final training loss is above pre-norm's by "
        f"{told(deep)}; with {shallow} layers by {told(shallow)} ({placement.step.max() + 1} steps)."
    )
    status = placement[placement.depth == deep].drop_duplicates(
        ["placement", "learning_rate", "warmup", "seed"]
    )
    for name, states in status.groupby("placement").status:
        failed = (states != "trained").sum()
        reason += f" Of {len(states)} {name}-norm runs of {deep} layers {failed} did not train."
    if own == Finding.ABSENT and len({above(gaps[deep, rate], 0) for rate in rates}) > 1:
        reason += " It depends on the learning rate."
    outcome = rules.verdict(own, Finding.SEEN)
    return Outcome(outcome, gaps[deep, rates[0]], bare.seed.nunique(), reason + rules.undecided(own))


def vanishing(tables: Tables) -> Outcome:
    gradients = tables["placement_gradients"]
    both_placements(gradients)
    bare = gradients[
        (gradients.warmup == gradients.warmup.min()) & (gradients.depth == gradients.depth.max())
    ]
    bare = bare[bare.learning_rate == bare.learning_rate.min()]
    deep, first, last = bare.depth.max(), bare.step.min(), bare.step.max()

    def decades(placement: str, step: int) -> Estimate:
        part = bare[(bare.placement == placement) & (bare.step == step)]
        ends = part.pivot(index="seed", columns="layer", values="gradient_norm")
        ratio = np.log10(ends[1] / ends[deep])
        return over_seeds(ratio[np.isfinite(ratio)], f"{placement}-norm gradients")

    def tenfold(estimate: Estimate) -> Finding:
        """Beyond a factor of 10, either way?"""
        sided = estimate if estimate.mean >= 0 else Estimate(-estimate.mean, -estimate.high, -estimate.low)
        return above(sided, rules.TENFOLD)

    post, pre = ({step: decades(name, step) for step in (first, last)} for name in ("post", "pre"))
    lost = [tenfold(estimate) for estimate in post.values()]
    own = Finding.SEEN if Finding.SEEN in lost else all_of(*sorted(lost))
    isolated = all_of(*(OPPOSITE[tenfold(estimate)] for estimate in pre.values()))

    def told(estimate: Estimate) -> str:
        return f"{estimate.map(lambda x: 10**x):.2g}"

    reason = (
        f"With {deep} layers the first layer's gradient is, relative to the last layer's, "
        f"{told(post[first])} in post-norm at step {first} and {told(post[last])} at step {last}; "
        f"{told(pre[first])} and {told(pre[last])} in pre-norm (rate {bare.learning_rate.min():g}, no "
        "warm-up)."
    )
    outcome = rules.verdict(own, isolated)
    return Outcome(outcome, post[last], bare.seed.nunique(), reason + rules.undecided(own, isolated))


def batch(tables: Tables) -> Outcome:
    table = tables["batch_dependence"]
    ours, others = (
        table[table.norm == "layernorm"],
        table[(table.norm == "batchnorm") & (table.effect == "others")],
    )
    if ours.empty or others.batch_size.nunique() < 2:
        raise Untestable("The run lacks a norm, or has a single batch size.")
    if others.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    exponent = power("batch_size", "change", others)
    sizes = others.groupby("batch_size").change.mean()
    own = where(ours.change.max() == 0)
    isolated = above(exponent.map(lambda p: -p)._replace(low=-exponent.high, high=-exponent.low), 0)
    reason = (
        f"LayerNorm's output changes by exactly {ours.change.max():g} when the other sequences, the mode or "
        f"the padding change. BatchNorm's changes by {sizes.iloc[0]:.2f} of its size with {sizes.index[0]} "
        f"sequences and {sizes.iloc[-1]:.3f} with {sizes.index[-1]}: as the batch size to the power "
        f"{exponent:.2f}."
    )
    return Outcome(
        rules.verdict(own, isolated), exponent, others.seed.nunique(), reason + rules.undecided(own, isolated)
    )


def square_root(tables: Tables) -> Outcome:
    table = tables["score_scale"]
    normal = table[table.source == "normal"]
    if normal.d_k.nunique() < 2:
        raise Untestable("The run has a single d_k.")
    if normal.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    spread = power("d_k", "score_std", normal[~normal.divided])
    divided = power("d_k", "score_std", normal[normal.divided])
    size = over_seeds(normal[normal.divided].groupby("seed").score_std.mean(), "divided scores")
    own, isolated = within(spread, 0.5), within(divided, 0.0)
    reason = (
        "For standard normal queries and keys the scores' standard deviation grows as d_k to the power "
        f"{spread:.3f}; after the division to the power {divided:.3f}, at {size:.3f}."
    )
    heads = table[(table.source == "language_model") & table.divided & (table.variant == "layernorm")]
    if len(heads):
        spans = f"{heads.score_std.min():.2f} to {heads.score_std.max():.2f}"
        reason += f" In the trained language models it is {spans} over heads."
    return Outcome(
        rules.verdict(own, isolated), spread, normal.seed.nunique(), reason + rules.undecided(own, isolated)
    )


def within(estimate: Estimate, exponent: float) -> Finding:
    """Is the whole interval within EXPONENT of the predicted one?"""
    if max(abs(estimate.low - exponent), abs(estimate.high - exponent)) <= rules.EXPONENT:
        return Finding.SEEN
    outside = estimate.low > exponent + rules.EXPONENT or estimate.high < exponent - rules.EXPONENT
    return Finding.ABSENT if outside else Finding.UNDECIDED


def worked_numbers(tables: Tables) -> Outcome:
    table = tables["worked_numbers"]
    counts = table.verdict.value_counts()
    right, follows, wrong = (int(counts.get(name, 0)) for name in ("right", "follows", "not right"))
    own = where(right == len(table))
    reason = (
        f"Of {len(table)} computed numbers {right} are right as rounded there, {follows} follow from an "
        f"earlier rounding or mistake, {wrong} are not right. Nothing is random."
    )
    share = 100 * right / len(table)
    return Outcome(rules.verdict(own, Finding.SEEN), Estimate(share, np.nan, np.nan), 1, reason)


TESTS = {
    "geometry": geometry,
    "fusion_residual": needs_residual,
    "fusion_norm": redundant_without_norm,
    "placement": stable,
    "placement_gradients": vanishing,
    "batch_dependence": batch,
    "score_scale": square_root,
    "worked_numbers": worked_numbers,
}
