"""Claims of other documents about LayerNorm: an essay, a question, and lecture notes.

The essay has LayerNorm as h(g(f(x))), with f a projection, g a scaling, h gain and bias. The question on W_O asks
when one matrix can do the work of W_O and W_1. Lecture notes speak of LayerNorm before the parts of a layer or after
them.
"""

from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import statements
from layernorm_roles.evidence.claims import rules, testing
from layernorm_roles.evidence.claims.rules import RADIUS, ROUNDING, TENFOLD, ZERO
from layernorm_roles.evidence.claims.testing import (
    BEFORE,
    UNTRAINED,
    Measured,
    Test,
    optional,
    range_over,
    require,
)

claim = partial(testing.claim, kind="other document", part="documents", target="statements")

# Geometry: nothing is random but the inputs, and the ends of the estimates are the range over the sizes of a vector


def scaled_to_radius(test: Test) -> None:
    """Ask whether LayerNorm's outputs have the length sqrt(n), away from the origin, with eps inside the root or
    outside."""
    rows = test.table("geometry").query("quantity == 'radius_mean'")
    rows = rows[rows.eps == rows.eps.max()]
    radii = rows.pivot(index=["n", "input_norm"], columns="eps_placement", values="value")
    n, length = (radii.index.get_level_values(name) for name in ("n", "input_norm"))
    away = radii[length / np.sqrt(n) >= rules.CLOSE]

    def largest(off: pd.Series, words: str) -> testing.Number:
        return range_over(
            off.abs().groupby("n").max(), words, unit=" √n", statistic="difference from the radius √n"
        )

    test.effect(largest(radii.outside - radii.inside, "between eps inside and outside"))
    for part, place in enumerate(("outside", "inside")):
        test.effect(
            largest(away[place] - 1, f"eps {place}, away from the origin"), part=part, all_at_most=RADIUS
        )


@claim(source="geometry essay", figures=["statement_geometry"])
def geometry(test):
    """LayerNorm is projection, scaling to radius √n, gain and bias: its outputs lie on an (n - 2)-dimensional
    ellipsoid around the bias, RMSNorm's on the full (n - 1)-sphere, stretched by the gains.

    Reported: equal
    Setting: The essay computes no example of this size; inputs are drawn from a Gaussian. Its eps is outside the
        root; torch's, inside it, is tested too.
    Statistic: largest difference from torch's layer_norm, float64, centred inputs
    Control: RMSNorm, whose outputs must have full rank
    Rule: The difference is at most {ROUNDING:g}; axes and centre agree to {ROUNDING:g} and the rank is n - 1, where
        RMSNorm's axes do and its rank is n. Partial if only the difference, or only one of the shapes, is as stated.
        From a root mean square of {CLOSE:g} of f(x) on, the radius is within {RADIUS:.0%} of √n with eps outside the
        root and inside.
    """
    test.beside("geometry_radius", "Scaled to radius √n, except very close to the origin", scaled_to_radius)
    table, statistic = test.table("geometry"), "largest difference, float64"
    same = table[(table.quantity == "difference_from_torch") & (table.eps_placement == "inside")]
    words = "difference from torch's layer_norm, float64"
    test.effect(range_over(same.groupby("n").value.max(), words, statistic=statistic), all_at_most=ROUNDING)
    norms = {"layernorm": ("ellipsoid", "(n - 1)"), "rmsnorm": ("sphere", "n")}
    for norm, (surface, full) in norms.items():
        # the axes of large vectors are not computed
        shape, projected = table[table.input_norm.isna() & (table.norm == norm)], norm == "layernorm"
        require(len(shape), f"The run has no ellipsoid of {norm}.")
        shape = shape.pivot(index="n", columns="quantity", values="value")
        off = shape.filter(["axes_deviation", "axes_cosine", *["centre_deviation"] * projected]).max(axis=1)
        rank = (shape["rank"] - shape.index + projected).abs()
        ask = partial(test.effect, part=1) if projected else test.control
        unit = "" if projected else " off"
        words = f"{norm}, deviation from the {surface}"
        ask(range_over(off, words, unit=unit, statistic=statistic), all_at_most=ROUNDING)
        ask(range_over(rank, f"{norm}, rank minus {full}", unit=unit, statistic=statistic), all_at_most=0)


# What stands between W_O and W_1


def missed(test: Test) -> Measured:
    """Return, by seed, the percentage of held-out variance that the best linear map of all heads' outputs misses.

    Columns are for what stands between W_O and W_1, in the widest random blocks, those of each width d, and trained
    models.
    """
    parts = {}
    for name, rows in test.table("fusion").groupby("arrangement"):
        random = rows[rows.source == "random"]
        parts[name] = random[random.d == random.d.max()]
        parts[f"{name}, trained language models"] = rows[rows.source != "random"]
        parts |= {f"{name}, d = {d}": part for d, part in random.groupby("d")}
    means = {name: part.groupby("seed").error.mean() for name, part in parts.items() if len(part)}
    words = "variance that a single map misses"
    return test.measured(100 * pd.DataFrame(means), " %", words)


def show_trained(test: Test, found: Measured, name: str) -> None:
    """Show what a single map misses in trained language models."""
    with optional():
        test.show(found.one(f"{name}, trained language models"))


def needed_for_norm(test: Test) -> None:
    """Ask whether the norm alone, and not the residual, keeps W_O from being redundant."""
    found = missed(test)
    test.effect(found.one("residual"), at_most=ZERO)
    widths = [name for name in found.frame if name.startswith("norm, d = ")]
    require(widths, "The run has no norm, d =.")
    for name in widths:
        test.effect(found.one(name), part=1, above=ZERO)
    test.control(exact(found), all_at_most=100 * ROUNDING)
    test.show(found.one("residual_norm"))
    show_trained(test, found, "norm")


def exact(found: Measured) -> testing.Number:
    """Return what a single map misses if nothing stands between the matrices."""
    return found.one("plain")


def carries_position(test: Test) -> None:
    """Ask whether residual connections raise the accuracy of a probe for the position by more than guessing has."""
    shares = statements.position_accuracies(test.table("position_probe")).query("placement == 'pre'")
    last = shares[shares.layer == shares.layer.max()]
    wide = last.pivot(index="seed", columns=["trained", "residual"], values="percent")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([(False, True), (False, True)]))
    guessed, values = 100 / test.table("position_probe").context_length.max(), {}
    gap, more = "with residual connections minus without", "with them minus without and minus guessing"
    for beginning, trained in (("", True), (BEFORE, False)):
        values[beginning + gap] = wide[trained, True] - wide[trained, False]
        values[beginning + more] = values[beginning + gap] - guessed
    found = test.measured(pd.DataFrame(values), " points", "accuracy of a probe for the position")
    untrained = None
    with optional():
        untrained = found.one(BEFORE + more)
    test.effect(found.one(gap))
    test.effect(found.one(more), alike={UNTRAINED: untrained}, above=0)
    test.control(found.one(BEFORE + gap))


@claim(source="question on W_O, accepted answer", unit=" %", figures=["statement_residual"])
def fusion_residual(test):
    """W_O is needed because of the residual connection around attention.

    Setting: The answer names no sizes; random weights, and those of the trained language models.
    Statistic: variance that a single map misses, residual and no LayerNorm, per cent
    Control: nothing between the two matrices, where a single map must be exact
    Rule: More than {ZERO:g} % is missed with the residual, nothing without anything between. Partial if something is
        missed then too. The question says that LayerNorm is what needs W_O: at most {ZERO:g} % is missed without
        LayerNorm, and more with LayerNorm alone at every width. The answer says that the residual carries the
        positional encoding: a linear probe before the last layer of the deepest networks names more positions with
        residuals than without, by an interval above what guessing achieves.
    """
    test.beside("fusion_norm", "LayerNorm is what needs W_O (the question)", needed_for_norm)
    test.beside("residual_position", "The residual connection carries the position", carries_position)
    found = missed(test)
    test.effect(found.one("residual"), above=ZERO)
    test.control(exact(found), all_at_most=100 * ROUNDING)
    show_trained(test, found, "residual")


# Pre-norm and post-norm

PLACES = {"pre": "pre-norm", "post": "post-norm", "none": "no LayerNorm"}
"""What the report calls the placements of LayerNorm in a network, by their values in the tables."""


def gradients_reach(test: Test) -> None:
    """Ask whether the first layer's gradient stays within a factor of 10 from the shallowest to the deepest networks.

    The gradient is infinite, or 0, beyond the range of float32.
    """
    table = test.table("untrained_gradients")
    require(table.depth.nunique() > 1, "The run has untrained networks of a single depth.")
    norms = table.pivot(index="seed", columns=["depth", "residual", "placement"], values="gradient_norm")
    with np.errstate(divide="ignore"):
        decades = np.log10(norms[table.depth.max()] / norms[table.depth.min()])
    words = {True: "with residual connections", False: "without residual connections"}
    order = [(residual, name) for residual in words for name in PLACES if (residual, name) in decades]
    names = [f"{words[residual]}, {PLACES[name]}" for residual, name in order]
    statistic = "decades by which the first layer's gradient changes with depth"
    found = test.measured(decades[order].set_axis(names, axis=1), " decades", statistic)
    for residual, beginning in words.items():
        own = [name for name in names if name.startswith(beginning)]
        require(own, f"The run has no {beginning}, *.")
        for part, name in enumerate(own):
            if residual:
                test.effect(found.one(name), part=part, no_further_than=TENFOLD)
            else:
                test.control(found.one(name), further_than=TENFOLD)


@claim(source="transformer notes", unit=" nats", figures=["statement_placement", "statement_residual"])
def placement(test):
    """Pre-norm trains more stably than post-norm in deep networks.

    Setting: The notes name no sizes; small networks on text.
    Statistic: final training loss, post-norm minus pre-norm, deepest, mean over rates, no warm-up, nats per token
    Control: the same difference in the shallowest networks; several learning rates
    Rule: The difference's interval is above 0 at every learning rate, in the deepest networks without warm-up.
        Partial if above at some and below at others. A run whose loss is not finite is worse than any other. Residual
        connections let gradients reach the first layers if with them the gradient of untrained networks changes by
        less than a factor of 10 with depth, up or down, wherever the LayerNorm stands and without one, and by more
        without them.
    """
    reach = "Residual connections let gradients reach the first layers"
    test.beside("residual_connections", reach, gradients_reach)
    losses = statements.final_losses(test.table("placement"))
    ends = losses[losses.depth.isin([losses.depth.max(), losses.depth.min()])]
    wide = ends.pivot(index=["depth", "learning_rate", "seed"], columns="placement", values="loss").dropna()
    gaps = (
        (wide.post - wide.pre).where(np.isfinite(wide).any(axis=1), 0.0).rename("gap").reset_index()
    )  # 0: both diverge
    if number := int(np.isinf(ends.loss).sum()):
        test.note(f"{number} of these runs diverged and count as infinitely bad.")
    statistic = "final training loss, post-norm minus pre-norm, no warm-up"

    def at(title: str, depth: int) -> Measured:
        own = gaps[gaps.depth == depth].pivot(index="seed", columns="learning_rate", values="gap")
        frame = own.rename(columns="rate {:g}".format).assign(**{"mean over rates": own.mean(axis=1)})
        return test.measured(frame, " nats", statistic, title=title)

    deepest, shallowest = at("deepest", int(gaps.depth.max())), at("shallowest", int(gaps.depth.min()))
    test.effect(deepest.one("mean over rates"))
    for part, rate in enumerate(name for name in deepest.frame if name != "mean over rates"):
        test.effect(deepest.one(rate), part=part, worse_by=0)
    test.control(shallowest.one("mean over rates"))
