"""Pre-norm and post-norm networks: training loss, and the gradients of their layers, trained and untrained."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D

from layernorm_roles.evidence.analysis.statements import measurable, position_accuracies, run_ends
from layernorm_roles.evidence.figures import style

PLACEMENTS = {
    "pre": {"label": "pre-norm", "color": "#0072B2", "lw": 1.3},
    "post": {"label": "post-norm", "color": "#D55E00", "lw": 1.3},
}
"""Look of each place of the LayerNorm."""

UNTRAINED = {**PLACEMENTS, "none": {"label": "no LayerNorm", "color": "#555555"}}
"""Look of each place of the LayerNorm in untrained networks."""

RESIDUAL = {
    True: {"label": "with residual connections", "ls": "-", "marker": "o", "ms": 2.5},
    False: {"label": "without residual connections", "ls": "--", "marker": "o", "ms": 2.5},
}

STROKES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Line styles of warm-ups or learning rates, the smallest first."""

CEILING = 1.0
"""Nats above the loss of token frequencies; the axis of final losses ends here at the latest."""

ZERO = {"color": "#999999", "lw": 0.7}
"""Look of the loss of token frequencies."""

PARTS = 20
"""Parts of a training over each of which the loss is a mean: single batches are small and noisy."""


def _strokes(values: pd.Series) -> dict[float, Any]:
    """A line style for each of the different values, the smallest first."""
    return {value: STROKES[i % len(STROKES)] for i, value in enumerate(sorted(map(float, values.unique())))}


def _marks(strokes: Mapping[str, Any]) -> list[Line2D]:
    """The legend's entries of line styles, by their labels."""
    return [style.mark(label, color=style.GREY, ls=stroke, lw=1.3) for label, stroke in strokes.items()]


def _in_words(warmup: float) -> str:
    return f"warm-up {warmup:g} steps" if warmup else "no warm-up"


def placement(table: pd.DataFrame) -> Figure:
    """Draw the final loss by learning rate, and the curves at each placement's best rate: a column a depth.

    table: placement. A loss is drawn minus the loss of token frequencies on equal tokens, so that it matters little
    which batch it is of. Runs that diverged are counted and not drawn.
    """
    depths, warmups = sorted(table.depth.unique()), _strokes(table.warmup)
    table = table.assign(train_loss=table.train_loss - table.unigram_loss)
    ends = run_ends(table)
    size = {"figsize": (style.PAGE, 4.4), "sharey": "row", "sharex": "row", "squeeze": False}
    figure, grid = plt.subplots(2, len(depths), **size)
    for (above, below), depth in zip(grid.T, depths, strict=True):
        here, runs = ends[ends.depth == depth], table[table.depth == depth]
        for warmup, stroke in warmups.items():
            looks = style.each(PLACEMENTS, ls=stroke)
            final = here[(here.warmup == warmup) & np.isfinite(here.loss)]
            marked = style.each(looks, marker="o", ms=2.5)
            style.lines(above, final, "placement", marked, "learning_rate", "loss", limits="range")
            curves = _at_best_rates(runs[runs.warmup == warmup], here[here.warmup == warmup])
            style.lines(below, curves, "placement", looks, "step", "train_loss", limits="range")
        _count_failures(above, here)
        style.rates(above, ends.learning_rate)
        above.set(title=f"{depth} layers", xlabel="learning rate")
        below.set(xlabel="optimiser steps")
        style.thousands(below)
    for axes in grid.flat:
        axes.axhline(0, **ZERO)
    finite = [0.0, *ends.loss[np.isfinite(ends.loss)]]
    low, top = min(finite) - 0.1, min(CEILING, max(finite) + 0.1)
    grid[0, 0].set(ylim=(low, top), ylabel="final loss above that of\ntoken frequencies (nats)")
    grid[1, 0].set(ylim=(low, 0.6), ylabel="loss at the best rate, above\ntoken frequencies (nats)")
    handles = style.marks(PLACEMENTS) + _marks({_in_words(number): ls for number, ls in warmups.items()})
    handles.append(style.mark("token frequencies alone", **ZERO))
    style.legend_below(figure, handles, columns=5, **style.seeds_title([table.seed.nunique()]))
    return figure


def _count_failures(axes: Axes, ends: pd.DataFrame) -> None:
    """Write how many runs of each placement diverged or were stuck at the loss of token frequencies."""
    lines = []
    for name, look in PLACEMENTS.items():
        states = ends.status[ends.placement == name]
        for status in ("diverged", "stuck"):
            if number := (states == status).sum():
                lines.append(f"{look['label']}: {number} of {len(states)} {status}")
    look = {"transform": axes.transAxes, "ha": "right", "va": "top", "fontsize": 6, "color": "#333333"}
    axes.text(0.98, 0.98, "\n".join(lines), **look)


def _at_best_rates(table: pd.DataFrame, ends: pd.DataFrame) -> pd.DataFrame:
    """The losses of each placement at the rate of the lowest mean final loss, as means over PARTS of the steps."""
    width = max(1, (table.step.max() + 1) // PARTS)
    best = ends.groupby(["placement", "learning_rate"]).loss.mean().groupby("placement").idxmin()
    chosen = table.merge(pd.DataFrame(list(best), columns=["placement", "learning_rate"]))
    middle = chosen.step // width * width + width / 2
    return chosen.assign(step=middle).groupby(["placement", "step", "seed"], as_index=False).train_loss.mean()


def placement_gradients(gradients: pd.DataFrame, untrained: pd.DataFrame) -> Figure:
    """Draw every layer's gradient norm, and that of the first layer by the number of layers in untrained networks.

    gradients: table placement_gradients, a column a depth: at initialisation, and on average over the training with a
    line for each learning rate; of several warm-ups the shortest is drawn. untrained: table untrained_gradients, with
    and without residual connections. Means are geometric, of gradients that do not overflow; one that has vanished
    counts as `measurable` says by layer, and is left out by depth.
    """
    warmup = float(gradients.warmup.min())
    gradients = gradients.assign(gradient_norm=measurable(gradients.gradient_norm))
    gradients = _positive(gradients[gradients.warmup == warmup])
    depths, rates = sorted(gradients.depth.unique()), _strokes(gradients.learning_rate)
    figure = plt.figure(figsize=(style.PAGE, 6.0))
    layered, first = figure.subfigures(2, 1, height_ratios=[4.2, 2])
    grid = layered.subplots(2, len(depths), sharey="row", sharex="col", squeeze=False, height_ratios=[0.6, 1])
    geometric = {"geometric": True, "limits": "range"}
    for (above, below), depth in zip(grid.T, depths, strict=True):
        part = gradients[gradients.depth == depth]
        initial = part[(part.step == 0) & (part.learning_rate == min(rates))]
        style.lines(above, initial, "placement", PLACEMENTS, "layer", "gradient_norm", **geometric)
        for rate, stroke in rates.items():
            training = part[(part.step > 0) & (part.learning_rate == rate)]
            looks = style.each(PLACEMENTS, ls=stroke)
            style.lines(
                below, training, "placement", looks, "layer", "gradient_norm", spread=None, **geometric
            )
        above.set(yscale="log", title=f"{depth} layers")
        ticks = sorted({1, max(1, int(depth) // 2), int(depth)})
        below.set(yscale="log", xlabel="layer", xlim=(0.5, depth + 0.5), xticks=ticks)
    initial = np.log10(gradients.gradient_norm[gradients.step == 0])
    if len(initial):  # whole decades, so that small differences at the start look small
        grid[0, 0].set_ylim(10 ** np.floor(initial.min()), 10 ** np.ceil(initial.max()))
    grid[0, 0].set_ylabel("gradient norm\nat initialisation")
    grid[1, 0].set_ylabel("gradient norm\nduring training")
    handles = style.marks(PLACEMENTS) + _marks({f"learning rate {rate:g}": ls for rate, ls in rates.items()})
    seeds = style.number_of([gradients.seed.nunique()], "seed")
    title = f"geometric means over {seeds}, in training over the logged steps too; {_in_words(warmup)}"
    style.legend_below(layered, handles, columns=3, title=title)
    _first_layer(first, _positive(untrained[untrained.layer == 1]))
    return figure


def _positive(table: pd.DataFrame) -> pd.DataFrame:
    return table[np.isfinite(table.gradient_norm) & (table.gradient_norm > 0)]


def _first_layer(figure: FigureBase, first: pd.DataFrame) -> None:
    """Draw the first layer's gradient in untrained networks by their depth, in a panel for each place of the norm.

    The networks with LayerNorms share an axis; in those without any the gradients reach far beyond it.
    """
    names = [name for name in UNTRAINED if (first.placement == name).any()]
    (panels,) = figure.subplots(1, len(names), squeeze=False)
    for axes, name in zip(panels, names, strict=True):
        looks = style.each(RESIDUAL, color=UNTRAINED[name]["color"])
        here = first[first.placement == name]
        style.lines(axes, here, "residual", looks, "depth", "gradient_norm", geometric=True, limits="range")
        axes.set(xscale="log", yscale="log", title=UNTRAINED[name]["label"], xlabel="layers of the network")
        style.ticks_at(axes, first.depth)
    normed = [axes for axes, name in zip(panels, names, strict=True) if name in PLACEMENTS]
    ends = np.array([axes.get_ylim() for axes in normed]).reshape(-1, 2)
    for axes in normed:
        axes.set_ylim(ends.min(), ends.max())
    panels[0].set_ylabel("gradient norm of\nthe first layer, untrained")
    handles = style.marks(style.each(RESIDUAL, color=style.GREY))
    title = style.seeds_title([first.seed.nunique()], "geometric means")
    style.legend_below(figure, handles, columns=2, **title)


def residual_position(probe: pd.DataFrame) -> Figure:
    """Draw before each layer how many tokens a linear probe of the stream names the position of.

    probe: table position_probe, of the deepest networks in it; a panel for untrained and one for trained networks.
    """
    shares = position_accuracies(probe)
    chance = {"color": "black", "ls": ":", "lw": 1.0}
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.5), sharey=True)
    for axes, trained in zip(panels, (False, True), strict=True):
        here = shares[shares.trained == trained]
        for residual, stroke in RESIDUAL.items():
            looks = style.each(PLACEMENTS, **stroke)
            part = here[here.residual == residual]
            style.lines(axes, part, "placement", looks, "layer", "percent", limits="range")
        axes.axhline(100 / probe.context_length.max(), **chance)
        axes.set(xlabel="before layer", title="trained" if trained else "untrained", ylim=(0, 103))
        axes.set(xticks=sorted(shares.layer.unique()))
    panels[0].set_ylabel("tokens whose position\na probe names (%)")
    handles = style.marks(PLACEMENTS) + style.marks(style.each(RESIDUAL, color=style.GREY, lw=1.3))
    handles.append(style.mark("guessing", **chance))
    style.legend_below(figure, handles, columns=5, **style.seeds_title([shares.seed.nunique()]))
    return figure
