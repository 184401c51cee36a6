"""The majority task by the learning rate: accuracy, steps to a loss, and the curves at each variant's best rate."""

from collections.abc import Iterator
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import last_rows, steps_to_reach
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.majority import logarithmic
from layernorm_roles.evidence.figures.rows import runs_of

BEST = {"marker": "o", "ms": 9, "mfc": "none", "mew": 1.1, "ls": ""}
"""Look of the ring around a variant's best rate."""

BOUND = {"marker": "^", "ms": 5, "mfc": "white", "mew": 1.0, "ls": ""}
"""Look of a lower bound: runs ended before they reached the loss."""

DIVERGED = {"marker": "X", "ms": 6, "mfc": "white", "mew": 1.0, "ls": ""}
"""Look of an accuracy with diverged runs among those it is the mean of; each of them counts as 0."""

FIRST = 10
"""The step where the curves begin: before it, no variant has learnt anything at its best rate."""

TICKS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
"""Where the logarithmic axis of steps may have its ticks."""


class _Rate(NamedTuple):
    """What the runs of one variant at one learning rate reach."""

    rate: float
    accuracy: Estimate
    steps: Estimate
    """Geometric mean; a run that does not reach the loss counts with its last step."""
    bounded: bool
    """Whether such a run is among them, so that the mean is a lower bound."""
    best: bool
    """Whether no other rate ends with a lower test loss, mean over seeds."""
    diverged: bool
    """Whether a run ended with a loss that is not finite."""


def by_rate(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw final accuracy, and steps to a test loss of TEST_LOSS, by the learning rate: a curve a variant.

    metrics: table majority_metrics. There is a row of panels for every width of the experiment.
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", experiment)
    widths = sorted(runs.d_model.unique())
    figure, grid = plt.subplots(
        len(widths), 2, figsize=(style.PAGE, 0.6 + 2.5 * len(widths)), sharex=True, squeeze=False
    )
    present, palette = legend_order(runs.variant), colours.palette(runs.variant)
    for (left, right), width in zip(grid, widths, strict=True):
        of_width = runs[runs.d_model == width]
        for number, variant in enumerate(present):
            rates = list(_rates(of_width[of_width.variant == variant]))
            shift = 10 ** (0.03 * (number - (len(present) - 1) / 2))
            look = {"ls": colours.stroke(variant), "marker": "o", "ms": 3, "lw": 1.1}
            _accuracy(left, rates, shift, palette[variant], **look)
            _steps(right, rates, shift, palette[variant], **look)
        left.set_ylabel(style.ACCURACY)
        right.set_ylabel(f"optimiser steps to test loss {TEST_LOSS:g}")
        left.set_xscale("log")
        style.accuracies(left, means=_drawn(left))
        right.set_yscale("log")
        right.set_ylim(0.7 * min(_drawn(right)), 1.4 * max(_drawn(right)))
        right.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if len(widths) > 1:
            left.set_title(f"d_model = {width}")
    every = sorted(runs.base_learning_rate.unique())
    for axes in grid[-1]:
        style.ticks_at(axes, every)
        axes.set_xticklabels([f"{rate:g}".replace("0.", ".", 1) for rate in every])
        axes.set_xlabel("learning rate at the first step")
    handles = _legend(runs)
    handles.append(style.mark("best rate", mec=style.GREY, **BEST))
    if any(line.get_marker() == "^" for axes in grid[:, 1] for line in axes.lines):
        handles.append(style.mark("lower bound", mec=style.GREY, **BOUND))
    if any(line.get_marker() == "X" for axes in grid[:, 0] for line in axes.lines):
        handles.append(style.mark("mean with diverged runs, each 0", mec=style.GREY, **DIVERGED))
    style.legend_below(figure, handles, columns=3)
    return figure


def _drawn(axes: Axes) -> list[float]:
    """The heights of all points and lines; bars may go on beyond them."""
    return [float(height) for line in axes.lines for height in line.get_ydata()]


def _accuracy(axes: Axes, rates: list[_Rate], shift: float, colour: str, **look) -> None:
    style.bars(axes, [each.rate * shift for each in rates], [each.accuracy for each in rates], colour, **look)
    for each in rates:
        for there, look in ((each.best, BEST), (each.diverged, DIVERGED)):
            if there:
                axes.plot(each.rate * shift, each.accuracy.mean, mec=colour, clip_on=False, **look)


def _steps(axes: Axes, rates: list[_Rate], shift: float, colour: str, **look) -> None:
    """Draw the geometric means of the steps; those of bounded rates as open triangles, off the line."""
    reached = [each for each in rates if not each.bounded]
    if reached:
        x = [each.rate * shift for each in reached]
        style.bars(axes, x, [each.steps for each in reached], colour, **look)
    for each in rates:
        if each.best:
            axes.plot(each.rate * shift, each.steps.mean, mec=colour, **BEST)
        if each.bounded:
            axes.plot(each.rate * shift, each.steps.mean, mec=colour, clip_on=False, **BOUND)


def best_rates(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw the test loss by the steps of each variant at its best rate: the one with the lowest loss at the end.

    metrics: table majority_metrics. There is a panel for every width of the experiment.
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", experiment)
    widths = sorted(runs.d_model.unique())
    figure, grid = plt.subplots(
        1, len(widths), figsize=(style.PAGE, 3.4), sharex=True, sharey=True, squeeze=False
    )
    palette, handles, seeds = colours.palette(runs.variant), [], []
    for axes, width in zip(grid.flat, widths, strict=True):
        for variant in legend_order(runs.variant):
            part = runs[(runs.d_model == width) & (runs.variant == variant) & (runs.step > 0)]
            best = best_rate(part)
            part = part[part.base_learning_rate == best]
            look = {"color": palette[variant], "ls": colours.stroke(variant)}
            style.seeds_line(axes, part, "test_loss", **look)
            seeds.append(part.seed.nunique())
            where = f"d = {width}: " if len(widths) > 1 else ""
            name = f"{where}{colours.label(variant)} at rate {best:g}"
            handles.append(style.mark(colours.counted(name, seeds[-1]), **look))
        first = FIRST if runs.step.max() > 10 * FIRST else 1
        axes.set(xlabel="optimiser steps", xscale="log", xlim=(first, runs.step.max()))
        style.ticks_at(axes, [tick for tick in TICKS if first <= tick <= runs.step.max()])
        style.thousands(axes)
        if len(widths) > 1:
            axes.set_title(f"d_model = {width}")
    logarithmic(*grid.flat)
    grid[0, 0].set_ylabel("test loss (nats per token)")
    if min(seeds) < style.ENOUGH_SEEDS:
        handles.append(style.single_run())
    style.legend_below(figure, handles, columns=3)
    return figure


def best_rate(runs: pd.DataFrame) -> float:
    """Return the learning rate with the lowest test loss at the last step, mean over the runs of one variant."""
    return float(last_rows(runs).groupby("base_learning_rate").test_loss.mean().idxmin())


def _rates(runs: pd.DataFrame) -> Iterator[_Rate]:
    """What the runs of one variant and width reach at each learning rate, from the lowest rate on."""
    best, endings = best_rate(runs), last_rows(runs)
    for rate, part in runs.groupby("base_learning_rate"):
        last = runs.step.max()
        steps = steps_to_reach(part, [TEST_LOSS]).steps.to_numpy(float)
        reached = np.isfinite(steps)
        counted = np.log(np.maximum(np.where(reached, steps, last), 1))
        ended = endings[endings.base_learning_rate == rate]
        yield _Rate(
            float(rate),
            style.of_three(ended.test_accuracy),
            style.of_three(counted).map(np.exp),
            not reached.all(),
            rate == best,
            bool(np.isinf(ended.test_loss).any()),
        )


def _legend(runs: pd.DataFrame) -> list:
    palette, seeds = colours.palette(runs.variant), runs.groupby("variant").seed.nunique()
    return [
        style.mark(
            colours.counted(colours.label(variant), seeds[variant]),
            color=palette[variant],
            ls=colours.stroke(variant),
            marker="o",
            ms=3,
        )
        for variant in legend_order(runs.variant)
    ]
