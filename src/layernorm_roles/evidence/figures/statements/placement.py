"""Pre-norm and post-norm networks: training loss, gradients of layers, and the sizes of what the parts receive."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from layernorm_roles.evidence.analysis.statements import run_ends
from layernorm_roles.evidence.figures import style

PLACEMENTS = {"pre": ("pre-norm", "#0072B2"), "post": ("post-norm", "#D55E00")}
"""Label and colour of each placement."""

UNTRAINED = {**PLACEMENTS, "none": ("no LayerNorm", "#555555")}
"""Label and colour of each place of the LayerNorm in untrained networks."""

LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
"""Line styles of warm-ups or learning rates, the smallest first."""

CEILING = 1.0
"""Nats above the loss of token frequencies; the axis of final losses ends here, where diverged runs are drawn."""


def styled(values: pd.Series) -> dict[float, object]:
    """A line style for each of the different values, the smallest first."""
    ordered = sorted(map(float, values.unique()))
    return {value: LINES[number % len(LINES)] for number, value in enumerate(ordered)}


def in_words(warmup: float) -> str:
    """The length of a warm-up for a legend."""
    return f"warm-up {warmup:g} steps" if warmup else "no warm-up"


def placement(table: pd.DataFrame) -> Figure:
    """Draw the final loss by learning rate, and the curves at each placement's best rate: a column a depth.

    Losses are those above the loss of token frequencies on equal tokens, which batch it is moves both alike.
    """
    depths, warmups = sorted(table.depth.unique()), styled(table.warmup)
    table = table.assign(train_loss=table.train_loss - table.unigram_loss)
    ends = run_ends(table)
    figure, grid = plt.subplots(
        2, len(depths), figsize=(style.PAGE, 4.4), sharey="row", sharex="row", squeeze=False
    )
    for (above, below), depth in zip(grid.T, depths, strict=True):
        _final_losses(above, ends[ends.depth == depth], warmups)
        _count_failures(above, ends[ends.depth == depth])
        _curves(below, table[table.depth == depth], ends[ends.depth == depth], warmups)
        above.set(title=f"{depth} layers", xlabel="learning rate")
        below.set(xlabel="optimiser steps")
        style.thousands(below)
    finite = ends.loss[np.isfinite(ends.loss)]
    low = min(-0.05, finite.min() if len(finite) else 0.0) - 0.05
    top = min(CEILING, max(0.1, (finite.max() if len(finite) else 0.0) + 0.1))
    grid[0, 0].set(ylim=(low, top), ylabel="final loss above that of\ntoken frequencies (nats)")
    grid[1, 0].set(ylim=(low, 0.6), ylabel="loss at the best rate, above\ntoken frequencies (nats)")
    handles = [style.mark(label, color=colour) for label, colour in PLACEMENTS.values()]
    handles += [style.mark(in_words(warmup), color=style.GREY, ls=line) for warmup, line in warmups.items()]
    handles.append(style.mark("token frequencies alone", color="#999999", lw=0.7))
    style.legend_below(figure, handles, columns=5, **style.seeds_title([table.seed.nunique()]))
    return figure


def _final_losses(axes: Axes, ends: pd.DataFrame, warmups: dict[float, object]) -> None:
    """Draw mean and range over seeds of the final loss by learning rate; runs that diverged are left out."""
    finite = ends[np.isfinite(ends.loss)]
    for name, (_, colour) in PLACEMENTS.items():
        for warmup, line in warmups.items():
            runs = (
                finite[(finite.placement == name) & (finite.warmup == warmup)].groupby("learning_rate").loss
            )
            axes.plot(runs.mean().index, runs.mean(), ls=line, marker="o", ms=2.5, color=colour, lw=1.3)
            axes.fill_between(runs.min().index, runs.min(), runs.max(), color=colour, alpha=0.15, lw=0)
    axes.axhline(0, color="#999999", lw=0.7)
    axes.set_xscale("log")
    rates = sorted(ends.learning_rate.unique())
    axes.xaxis.set_major_locator(FixedLocator(rates))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(rates, [f"{rate:g}".replace("0.", ".", 1) for rate in rates], fontsize=6.5)


def _count_failures(axes: Axes, ends: pd.DataFrame) -> None:
    """Write how many runs of each placement diverged or were stuck at the loss of token frequencies."""
    lines = []
    for name, (label, _) in PLACEMENTS.items():
        states = ends.status[ends.placement == name]
        for status in ("diverged", "stuck"):
            if number := (states == status).sum():
                lines.append(f"{label}: {number} of {len(states)} {status}")
    place = {"transform": axes.transAxes, "ha": "right", "va": "top"}
    axes.text(0.98, 0.98, "\n".join(lines), fontsize=6, color="#333333", **place)


def _curves(axes: Axes, table: pd.DataFrame, ends: pd.DataFrame, warmups: dict[float, object]) -> None:
    """Draw the training curves at the rate of the lowest mean final loss, for each placement and warm-up.

    Single batches are small and noisy: what is drawn are means over a twentieth of the run, and the range over seeds.
    """
    width = max(1, (table.step.max() + 1) // 20)
    for name, (_, colour) in PLACEMENTS.items():
        for warmup, line in warmups.items():
            chosen = ends[(ends.placement == name) & (ends.warmup == warmup)]
            if chosen.empty:
                continue
            best = chosen.groupby("learning_rate").loss.mean().idxmin()
            runs = table[(table.placement == name) & (table.warmup == warmup) & (table.learning_rate == best)]
            seeds = runs.groupby([runs.step // width * width + width / 2, "seed"]).train_loss.mean().unstack()
            axes.plot(seeds.index, seeds.mean(axis=1), ls=line, color=colour, lw=1.3)
            low, high = seeds.min(axis=1), seeds.max(axis=1)
            axes.fill_between(seeds.index, low, high, color=colour, alpha=0.15, lw=0)
    axes.axhline(0, color="#999999", lw=0.7)


def placement_gradients(table: pd.DataFrame) -> Figure:
    """Draw every layer's gradient norm at initialisation and on average over the training: a column a depth.

    In training there is a line for each learning rate; of several warm-ups the shortest is drawn.
    """
    warmup = float(table.warmup.min())
    table = table[(table.warmup == warmup) & np.isfinite(table.gradient_norm) & (table.gradient_norm > 0)]
    depths, rates = sorted(table.depth.unique()), styled(table.learning_rate)
    figure, grid = plt.subplots(
        2,
        len(depths),
        figsize=(style.PAGE, 4.2),
        sharey="row",
        sharex="col",
        squeeze=False,
        height_ratios=[0.6, 1],
    )
    for (above, below), depth in zip(grid.T, depths, strict=True):
        part = table[table.depth == depth]
        for name, (_, colour) in PLACEMENTS.items():
            runs = part[part.placement == name]
            first = runs[(runs.step == 0) & (runs.learning_rate == min(rates))]
            _by_layer(above, first, color=colour, ls="-", band=True)
            for rate, line in rates.items():
                _by_layer(below, runs[(runs.step > 0) & (runs.learning_rate == rate)], color=colour, ls=line)
        above.set(yscale="log", title=f"{depth} layers")
        below.set(
            yscale="log",
            xlabel="layer",
            xlim=(0.5, depth + 0.5),
            xticks=sorted({1, max(1, int(depth) // 2), int(depth)}),
        )
    # Whole decades, so that small differences at the start look small.
    first = np.log10(table.gradient_norm[table.step == 0])
    if len(first):
        grid[0, 0].set_ylim(10 ** np.floor(first.min()), 10 ** np.ceil(first.max()))
    grid[0, 0].set_ylabel("gradient norm\nat initialisation")
    grid[1, 0].set_ylabel("gradient norm\nduring training")
    figure.align_ylabels()
    handles = [style.mark(label, color=colour) for label, colour in PLACEMENTS.values()]
    handles += [
        style.mark(f"learning rate {rate:g}", color=style.GREY, ls=line) for rate, line in rates.items()
    ]
    seeds = table.seed.nunique()
    title = f"geometric means over {seeds} seeds, in training over the logged steps too; {in_words(warmup)}"
    style.legend_below(figure, handles, columns=3, title=title, title_fontsize=7)
    return figure


def _by_layer(axes: Axes, table: pd.DataFrame, band: bool = False, **look) -> None:
    """Draw the geometric mean of each layer's gradient norm, and its range if `band`."""
    by_layer = table.groupby("layer").gradient_norm
    middle = np.exp(np.log(table.gradient_norm).groupby(table.layer).mean())
    if band:
        axes.fill_between(middle.index, by_layer.min(), by_layer.max(), color=look["color"], alpha=0.2, lw=0)
    axes.plot(middle.index, middle, lw=1.3, **look)


def placement_scales(table: pd.DataFrame) -> Figure:
    """Draw the size of what each part of the deepest networks receives, and of the residual stream before it.

    Of several warm-ups the shortest is drawn, in training a line for each learning rate.
    """
    depth, warmup = int(table.depth.max()), float(table.warmup.min())
    table = table[(table.depth == depth) & (table.warmup == warmup)]
    rates = styled(table.learning_rate)
    figure, grid = plt.subplots(1, 4, figsize=(style.PAGE, 2.5), sharey=True)
    panels = [
        (column, what, trained, when)
        for column, what in (("input_rms", "input of a part"), ("stream_rms", "residual stream"))
        for trained, when in ((False, "at initialisation"), (True, "after training"))
    ]
    for axes, (column, what, trained, when) in zip(grid, panels, strict=True):
        rows = table[(table.step > 0) == trained]
        rows = rows[np.isfinite(rows[column])]
        for name, (_, colour) in PLACEMENTS.items():
            for rate, line in rates.items() if trained else [(min(rates), "-")]:
                part = rows[(rows.placement == name) & (rows.learning_rate == rate)]
                place = part.layer + 0.5 * (part.part == "feed_forward")  # attention first in every layer
                mean = np.exp(np.log(part[column]).groupby(place).mean())
                # Where both placements have one size, the thinner line shows the thicker one below it.
                axes.plot(mean.index, mean, ls=line, color=colour, lw=2.2 if name == "pre" else 1.0)
        axes.set(title=f"{what},\n{when}", xlabel="layer", yscale="log")
        axes.set_xticks(sorted({1, max(1, int(depth) // 2), int(depth)}))
    grid[0].set_ylabel("root mean square")
    handles = [style.mark(label, color=colour) for label, colour in PLACEMENTS.values()]
    handles += [
        style.mark(f"learning rate {rate:g}", color=style.GREY, ls=line) for rate, line in rates.items()
    ]
    title = f"{depth} layers, {in_words(warmup)}; geometric means over {table.seed.nunique()} seeds"
    style.legend_below(figure, handles, columns=3, title=title, title_fontsize=7)
    return figure


def untrained_gradients(table: pd.DataFrame) -> Figure:
    """Draw the first layer's gradient in untrained networks by their depth, with and without residual connections.

    The networks with LayerNorms share an axis; in those without any the gradients reach far beyond it.
    """
    first = table[(table.layer == 1) & np.isfinite(table.gradient_norm) & (table.gradient_norm > 0)]
    names = [name for name in UNTRAINED if (first.placement == name).any()]
    figure, (grid,) = plt.subplots(1, len(names), figsize=(style.PAGE, 2.4), squeeze=False)
    lines = {True: "-", False: "--"}
    for axes, name in zip(grid, names, strict=True):
        label, colour = UNTRAINED[name]
        for residual, line in lines.items():
            part = first[(first.placement == name) & (first.residual == residual)]
            norms = part.groupby("depth").gradient_norm
            middle = np.exp(np.log(part.gradient_norm).groupby(part.depth).mean())
            axes.fill_between(middle.index, norms.min(), norms.max(), color=colour, alpha=0.2, lw=0)
            axes.plot(middle.index, middle, ls=line, marker="o", ms=2.5, color=colour)
        axes.set(xscale="log", yscale="log", title=label, xlabel="layers of the network")
        style.ticks_at(axes, sorted(first.depth.unique()))
        axes.xaxis.set_minor_locator(NullLocator())
    normed = [axes for axes, name in zip(grid, names, strict=True) if name in PLACEMENTS]
    ends = np.array([axes.get_ylim() for axes in normed]).reshape(-1, 2)
    for axes in normed:
        axes.set_ylim(ends.min(), ends.max())
    grid[0].set_ylabel("gradient norm of\nthe first layer")
    handles = [
        style.mark("with residual connections", color=style.GREY, ls="-", marker="o", ms=2.5),
        style.mark("without", color=style.GREY, ls="--", marker="o", ms=2.5),
    ]
    title = style.seeds_title([first.seed.nunique()], "geometric means")
    style.legend_below(figure, handles, columns=2, **title)
    return figure
