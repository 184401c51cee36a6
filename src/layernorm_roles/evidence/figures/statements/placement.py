"""Pre-norm and post-norm networks: training loss, and the gradients of their layers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style

PLACEMENTS = {"pre": ("pre-norm", "#0072B2"), "post": ("post-norm", "#D55E00")}
"""Label and colour of each placement."""

WARMUP_LINES = ("-", "--", ":")
"""Line styles of the warm-ups, the shortest first."""


def placement(table: pd.DataFrame) -> Figure:
    """Draw the loss above that of token frequencies on equal tokens: a column a depth, a row a learning rate."""
    depths, rates = sorted(table.depth.unique()), sorted(table.learning_rate.unique())
    warmups = dict(zip(sorted(table.warmup.unique().tolist()), WARMUP_LINES, strict=False))
    size = (style.PAGE, 1.0 + 1.6 * len(rates))
    figure, grid = plt.subplots(
        len(rates), len(depths), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    # The difference on equal tokens is drawn, because which batch it is moves both losses alike. Single batches are
    # small and noisy: what is drawn are means over a twentieth of the run.
    width = max(1, (table.step.max() + 1) // 20)
    curves = table.assign(
        gain=table.train_loss - table.unigram_loss, step=table.step // width * width + width / 2
    )
    keys = ["depth", "learning_rate", "placement", "warmup", "seed", "step"]
    curves = curves.groupby(keys, as_index=False).gain.mean()
    for row, rate in zip(grid, rates, strict=True):
        for axes, depth in zip(row, depths, strict=True):
            here = (curves.learning_rate == rate) & (curves.depth == depth)
            _losses(axes, curves[here], warmups)
            _count_failures(axes, table[(table.learning_rate == rate) & (table.depth == depth)])
            axes.set(title=f"{depth} layers" if rate == rates[0] else "", ylim=(-0.35, 1.0))
        row[0].set_ylabel(f"learning rate {rate:g}\nloss above token\nfrequencies (nats)")
    for axes in grid[-1]:
        axes.set_xlabel("optimiser steps")
    handles = [style.mark(label, color=colour) for label, colour in PLACEMENTS.values()]
    for warmup, line in warmups.items():
        label = f"warm-up {warmup} steps" if warmup else "no warm-up"
        handles.append(style.mark(label, color=style.GREY, ls=line))
    handles.append(style.mark("token frequencies alone", color=style.GREY, lw=0.7, ls=":"))
    style.legend_below(figure, handles, columns=5)
    return figure


def _losses(axes: Axes, curves: pd.DataFrame, warmups: dict[int, str]) -> None:
    """Draw mean and range over seeds for each placement and warm-up, and the loss of token frequencies as 0."""
    for name, (_, colour) in PLACEMENTS.items():
        for warmup, line in warmups.items():
            runs = curves[(curves.placement == name) & (curves.warmup == warmup)]
            seeds = runs.pivot(index="step", columns="seed", values="gain")
            axes.plot(seeds.index, seeds.mean(axis=1), line, color=colour, lw=1.3)
            low, high = seeds.min(axis=1), seeds.max(axis=1)
            axes.fill_between(seeds.index, low, high, color=colour, alpha=0.15, lw=0)
    axes.axhline(0, color=style.GREY, lw=0.7, ls=":")


def _count_failures(axes: Axes, table: pd.DataFrame) -> None:
    """Write how many runs of each placement diverged or were stuck at the loss of token frequencies."""
    runs = table.drop_duplicates(["placement", "warmup", "seed"])
    lines = []
    for name, (label, _) in PLACEMENTS.items():
        states = runs.status[runs.placement == name]
        for status in ("diverged", "stuck"):
            if number := (states == status).sum():
                lines.append(f"{label}: {number} of {len(states)} {status}")
    place = {"transform": axes.transAxes, "ha": "right", "va": "top"}
    axes.text(0.97, 0.95, "\n".join(lines), fontsize=6, color="#333333", **place)


def placement_gradients(table: pd.DataFrame) -> Figure:
    """Draw every layer's gradient norm at the first, middle and last logged step: a column a depth.

    Of several learning rates and warm-ups the smallest of each is drawn.
    """
    rate, warmup = table.learning_rate.min(), table.warmup.min()
    table = table[(table.warmup == warmup) & (table.learning_rate == rate)]
    depths, logged = sorted(table.depth.unique()), sorted(table.step.unique())
    steps = sorted({logged[0], logged[len(logged) // 2], logged[-1]})
    size = (style.PAGE, 1.0 + 1.2 * len(steps))
    figure, grid = plt.subplots(
        len(steps), len(depths), figsize=size, sharey=True, sharex="col", squeeze=False
    )
    for row, step in zip(grid, steps, strict=True):
        for axes, depth in zip(row, depths, strict=True):
            _gradients(axes, table[(table.step == step) & (table.depth == depth)])
            axes.set(
                yscale="log", xlim=(0.5, depth + 0.5), title=f"{depth} layers" if step == steps[0] else ""
            )
        row[0].set_ylabel(("at initialisation" if step == 0 else f"step {step}") + "\ngradient norm")
    for axes, depth in zip(grid[-1], depths, strict=True):
        axes.set(xlabel="layer", xticks=sorted({1, max(1, depth // 2), depth}))
    handles = [style.mark(label, color=colour, marker="o", ms=3) for label, colour in PLACEMENTS.values()]
    title = f"geometric mean and range over {table.seed.nunique()} seeds; learning rate {rate:g}, " + (
        f"warm-up {warmup} steps" if warmup else "no warm-up"
    )
    style.legend_below(figure, handles, columns=2, title=title, title_fontsize=7)
    return figure


def _gradients(axes: Axes, table: pd.DataFrame) -> None:
    """Draw geometric mean and range over seeds of each layer's gradient norm; leave out what is not finite."""
    for name, (_, colour) in PLACEMENTS.items():
        part = table[(table.placement == name) & np.isfinite(table.gradient_norm)]
        by_layer = part.groupby("layer").gradient_norm
        middle = np.exp(by_layer.apply(lambda values: np.log(values).mean()))
        axes.fill_between(middle.index, by_layer.min(), by_layer.max(), color=colour, alpha=0.2, lw=0)
        axes.plot(middle.index, middle, "o-", color=colour, ms=2.5 if len(middle) < 20 else 1.5, lw=1.1)
