"""The majority task by what its experiments vary: size and projection, the width, the learning rate."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import early_and_last, last_rows, steps_to_reach, two_by_two
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import FEWEST, LOOKS, TEST_LOSS

# Size and projection

CELLS = {
    "with projection": ("layernorm_small", "layernorm"),
    "without projection": ("scale_released", "scale"),
}
"""Each line of the figure, and its variants: small keys, large keys."""

POINT = {"marker": "o", "ms": 4}
"""Look of the accuracy in a cell."""

EFFECTS = ("projection", "size", "interaction")
"""The effects of the last panel, from the top."""

MOMENTS = ({"marker": "o", "mfc": "white", "ms": 4.5}, {"marker": "o", "ms": 4.5})
"""Looks of the effects early and at the end of the training."""


def size_and_projection(metrics: pd.DataFrame, setting: Mapping[str, Any]) -> Figure:
    """Draw the accuracy in the four cells, early and at the end, and the two main effects with their interaction.

    metrics: table majority_metrics. `setting` describes the experiment: experiment, title (see `registry`). Early is
    an early step, see `analysis.majority.early_and_last`.
    """
    runs = metrics[metrics.experiment == setting["experiment"]]
    steps = sorted({*early_and_last(runs)})
    ratios = [1] * len(steps) + [1.35]
    figure, (*moments, right) = plt.subplots(1, len(ratios), figsize=(style.PAGE, 2.9), width_ratios=ratios)
    colours = {name: LOOKS[large].colour for name, (_, large) in CELLS.items()}
    handles = []
    for number, (axes, step) in enumerate(zip(moments, steps, strict=True)):
        cells = _accuracies(runs, step)
        for shift, (name, (small, large)) in zip((-0.03, 0.03), CELLS.items(), strict=True):
            both = cells[[small, large]].rename(columns={small: shift, large: 1 + shift})
            axes.plot(both.columns, both.T, color=colours[name], lw=0.5, alpha=0.4)
            style.line(axes, both.melt(), "variant", "value", "bars", color=colours[name], **POINT)
        axes.set(title=f"step {step:,}", xlim=(-0.4, 1.4), xlabel="length of the keys")
        axes.set_xticks([0, 1], ["1/√d (small)", "√d (large)"])
        look = MOMENTS[number - len(steps)] | {"color": "black", "ls": ""}
        handles.append(style.mark(f"effect at step {step:,}", **look))
        effects = two_by_two(100 * cells)._asdict()
        for y, name in enumerate(EFFECTS):
            _effect(right, y + 0.28 * (number - (len(steps) - 1) / 2), effects[name], look)
    style.accuracies(*moments)
    moments[0].set_ylabel(style.ACCURACY)
    right.axvline(0, color="black", lw=0.6)
    right.set(ylim=(len(EFFECTS) - 0.5, -0.5), xlabel="effect on accuracy (points)")
    right.set_yticks(range(len(EFFECTS)), EFFECTS)
    right.tick_params(axis="y", length=0)
    figure.suptitle(setting["title"], fontsize=7)
    seeds = style.number_of([len(cells)], "seed")
    lines = [style.mark(f"{name}, {seeds}", color=colour, **POINT) for name, colour in colours.items()]
    style.legend_below(figure, [*lines, *handles], columns=4)
    return figure


def _accuracies(runs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Test accuracy at a step: a row for each seed that all four variants have, a column for each of them."""
    at = runs[runs.step == step].pivot(index="seed", columns="variant", values="test_accuracy")
    return at[[variant for pair in CELLS.values() for variant in pair]].dropna()


def _effect(axes: Axes, y: float, values: pd.Series, look: Mapping[str, Any]) -> None:
    """Draw a mean with its interval at height y, and the seeds as small points below it."""
    mean, low, high = Estimate.of(values)
    axes.plot(values, np.full(len(values), y + 0.1), ".", ms=2.5, color=style.GREY, alpha=0.5)
    if len(values) >= FEWEST:
        axes.hlines(y, low, high, color=look["color"], lw=1)
    axes.plot(mean, y, **look)


# Widths

BASE = "scale"
"""The variant without projection, from which the others are subtracted."""

PROJECTED = {
    "layernorm": "projection in Q, K and V (LayerNorm)",
    "layernorm_affine": "projection in Q, K and V, gain and bias",
    "projected_qk": "projection in Q and K",
    "projected_v": "projection in V",
    "scale": "no projection (scaling only)",
}
"""The legend's entries for the variants with scaling, which say where the projection is; others keep their names."""


def by_d_model(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw final accuracy by width for all variants, and its difference from BASE with equal seeds.

    metrics: table majority_metrics. There is a row of panels for every learning rate of the experiment, and no panel
    of differences where BASE or another variant is missing.
    """
    runs = style.runs_of(metrics, "majority_metrics", "experiment", [experiment])
    rates, widths = sorted(runs.base_learning_rate.unique()), sorted(runs.d_model.unique())
    drawn = style.looks(runs.variant, marker="o", ms=3.2)
    drawn = {name: look | {"label": PROJECTED.get(name, look["label"])} for name, look in drawn.items()}
    columns = 2 if BASE in drawn and len(drawn) > 1 else 1
    size = (style.PAGE if columns == 2 else style.COLUMN, 0.6 + 2.6 * len(rates))
    figure, grid = plt.subplots(len(rates), columns, figsize=size, sharex=True, squeeze=False)
    side_by_side = style.apart(drawn, 1.03)
    for row, rate in zip(grid, rates, strict=True):
        ends = last_rows(runs)[lambda rows, rate=rate: rows.base_learning_rate == rate]
        style.lines(row[0], ends, "variant", side_by_side, "d_model", "test_accuracy", spread="bars")
        style.accuracies(row[0])
        row[0].set(ylabel=style.ACCURACY, xscale="log")
        if len(rates) > 1:
            row[0].set_title(f"learning rate {rate:g}")
        for axes in row[1:]:
            gains = style.differences(ends, BASE, "test_accuracy", "d_model", "seed")
            gains = gains.assign(points=100 * gains.difference)
            style.lines(axes, gains, "variant", side_by_side, "d_model", "points", spread="bars")
            axes.axhline(0, color=LOOKS[BASE].colour, lw=1.4, zorder=0)
            axes.set_ylabel("accuracy − that of scaling only\n(percentage points)")
    for axes in grid[-1]:
        style.ticks_at(axes, widths)
        axes.set_xlabel("width d")
    style.legend_below(figure, style.marks(style.with_seeds(drawn, runs)), columns=3)
    return figure


# Learning rates

BEST = "lowest final test loss"
BOUND = "lower bound"
DIVERGED = "mean with diverged runs, each 0"
MARKS = {
    BEST: {"marker": "o", "ms": 9, "mfc": "none", "mew": 1.1, "ls": ""},
    BOUND: {"marker": "^", "ms": 5, "mfc": "white", "mew": 1.0, "ls": ""},
    DIVERGED: {"marker": "X", "ms": 6, "mfc": "white", "mew": 1.0, "ls": ""},
}
"""Looks of the rings around best rates; of bounds, whose runs ended before they reached the loss; and of accuracies to
which diverged runs contribute."""


def by_rate(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw final accuracy, and steps to a test loss of TEST_LOSS, by the learning rate: a curve a variant.

    metrics: table majority_metrics. There is a row of panels for every width of the experiment. Variants and rates with
    fewer than FEWEST runs are thin: their means are of too few runs to be compared.
    """
    runs = style.runs_of(metrics, "majority_metrics", "experiment", [experiment])
    widths = sorted(runs.d_model.unique())
    size = (style.PAGE, 0.6 + 2.5 * len(widths))
    figure, grid = plt.subplots(len(widths), 2, figsize=size, sharex=True, squeeze=False)
    drawn = style.looks(runs.variant, marker="o", ms=3, lw=1.1)
    seeds = runs.groupby("variant").seed.nunique()
    for name in drawn:
        drawn[name] |= {"lw": 0.6, "ms": 2, "alpha": 0.6} if seeds[name] < FEWEST else {}
    marked: set[str] = set()
    for (left, right), width in zip(grid, widths, strict=True):
        for variant, look in style.apart(drawn, 10**0.03).items():
            part = runs[(runs.d_model == width) & (runs.variant == variant)]
            marked |= _rates(left, right, part, look)
        left.set_ylabel(style.ACCURACY)
        right.set_ylabel(f"optimiser steps to test loss {TEST_LOSS:g}")
        style.accuracies(left)
        steps = style.heights(right)
        right.set(yscale="log", ylim=(0.7 * steps.min(), 1.4 * steps.max()))
        right.yaxis.set_major_formatter("{x:,.0f}")
        if len(widths) > 1:
            left.set_title(f"d_model = {width}")
    for axes in grid.flat:
        style.rates(axes, runs.base_learning_rate)
    handles = style.marks(style.with_seeds(drawn, runs))
    handles += [style.mark(name, mec=style.GREY, **look) for name, look in MARKS.items() if name in marked]
    style.legend_below(figure, handles, columns=3)
    return figure


def _rates(left: Axes, right: Axes, runs: pd.DataFrame, look: Mapping[str, Any]) -> set[str]:
    """Draw the accuracy and the steps of one variant and width by the rate; return which of MARKS are drawn.

    A run that does not reach the loss counts with its last step; a mean with such runs is a lower bound, off the line.
    """
    ends, rate = last_rows(runs), "base_learning_rate"
    style.line(left, ends, rate, "test_accuracy", spread="bars", **look)
    arrivals = steps_to_reach(runs, [TEST_LOSS])
    late = arrivals[rate][arrivals.steps.isna()]
    arrivals = arrivals.assign(steps=arrivals.steps.fillna(runs.step.max()).clip(lower=1))
    complete = arrivals[~arrivals[rate].isin(late)]
    if len(complete):
        style.line(right, complete, rate, "steps", spread="bars", geometric=True, **look)
    accuracy = style.means(ends, rate, "test_accuracy")
    steps = style.means(arrivals, rate, "steps", geometric=True)
    best = [float(ends.groupby(rate).test_loss.mean().idxmin())]
    marked = [
        (BEST, left, accuracy.loc[best]),
        (BEST, right, steps.loc[best]),
        (DIVERGED, left, accuracy.loc[sorted({*ends[rate][np.isinf(ends.test_loss)]})]),
        (BOUND, right, steps.loc[sorted({*late})]),
    ]
    for name, axes, at in marked:
        for each, mean in at["mean"].items():
            axes.plot(each * look["shift"], mean, mec=look["color"], clip_on=False, **MARKS[name])
    return {name for name, _, at in marked if len(at)}
