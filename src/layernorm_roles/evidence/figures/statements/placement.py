"""Pre-norm and post-norm networks: the loss after training, and what residual connections carry."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.statements import final_losses, position_accuracies
from layernorm_roles.evidence.figures import style

PLACES = {
    "pre": {"label": "pre-norm", "color": "#0072B2"},
    "post": {"label": "post-norm", "color": "#D55E00"},
    "none": {"label": "no LayerNorm", "color": "#555555"},
}
"""Look of each place of the LayerNorm."""

RESIDUAL = {
    True: {"label": "with residual connections", "ls": "-", "marker": "o", "ms": 2.5},
    False: {"label": "without residual connections", "ls": "--", "marker": "o", "ms": 2.5},
}

GUESSING = {"label": "guessing", "color": "black", "ls": ":", "lw": 1.0}


def placement(table: pd.DataFrame, untrained: pd.DataFrame, probe: pd.DataFrame) -> Figure:
    """Draw final losses by learning rate, and below gradients of untrained networks, and positions that are named.

    table: placement, of which runs that diverged are counted and not drawn. untrained: untrained_gradients, as
    geometric means without those that vanish or overflow; networks without LayerNorm, whose gradients reach far beyond
    the others, have an axis of their own. probe: position_probe, of the deepest networks in it.
    """
    figure = plt.figure(figsize=(style.PAGE, 5.0))
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.25])
    losses = final_losses(table)
    depths = sorted(losses.depth.unique())
    for axes, depth in zip(
        above.subplots(1, len(depths), sharey=True, squeeze=False)[0], depths, strict=True
    ):
        here = losses[losses.depth == depth]
        finite, looks = here[np.isfinite(here.loss)], style.each(PLACES, **RESIDUAL[True])
        style.lines(axes, finite, "placement", looks, "learning_rate", "loss", limits="range")
        if lost := len(here) - len(finite):
            axes.text(
                0.98, 0.98, f"{lost} diverged", transform=axes.transAxes, ha="right", va="top", fontsize=6
            )
        style.rates(axes, losses.learning_rate)
        axes.set(title=f"{depth} layers", xlabel="learning rate")
    above.axes[0].set_ylabel("final loss (nats)")
    normed, bare, *probed = below.subplots(1, 4)
    first = untrained[np.isfinite(untrained.gradient_norm) & (untrained.gradient_norm > 0)]
    shares = position_accuracies(probe)
    for residual, stroke in RESIDUAL.items():
        looks = style.each(PLACES, **stroke)
        for axes, without in ((normed, False), (bare, True)):
            part = first[(first.residual == residual) & ((first.placement == "none") == without)]
            options = {"geometric": True, "limits": "range"}
            style.lines(axes, part, "placement", looks, "depth", "gradient_norm", **options)
        for axes, trained in zip(probed, (False, True), strict=True):
            part = shares[(shares.trained == trained) & (shares.residual == residual)]
            style.lines(axes, part, "placement", looks, "layer", "percent", limits="range")
    for axes, title in ((normed, "LayerNorm"), (bare, "no LayerNorm")):
        axes.set(xscale="log", yscale="log", title=title, xlabel="layers, untrained")
        style.ticks_at(axes, untrained.depth)
    normed.set_ylabel("gradient norm of\nthe first layer")
    for axes, title in zip(probed, ("untrained", "trained"), strict=True):
        axes.axhline(100 / probe.context_length.max(), **GUESSING)
        axes.set(title=title, xlabel="before layer", ylim=(0, 103), xticks=sorted(shares.layer.unique()))
    probed[0].set_ylabel("tokens whose position\na probe names (%)")
    handles = [*style.marks(PLACES), *style.marks(style.each(RESIDUAL, color=style.GREY))]
    numbers = [each.seed.nunique() for each in (losses, first, shares)]
    title = style.seeds_title(numbers)
    style.legend_below(below, [*handles, style.mark(**GUESSING)], columns=3, **title)
    return figure
