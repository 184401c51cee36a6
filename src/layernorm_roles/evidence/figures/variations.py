"""The majority task by what its experiments vary: size and projection, the width, the learning rate."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from layernorm_roles.evidence.analysis.estimate import Estimate, two_by_two
from layernorm_roles.evidence.analysis.majority import (
    SIZE_AND_PROJECTION,
    best_rates,
    early_and_last,
    last_rows,
    of_single_points,
    steps_to_reach,
)
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.majority import title
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL
from layernorm_roles.variants import BUILT_IN

# Size and projection

LARGE, SMALL = SIZE_AND_PROJECTION
CELLS = dict(zip(("with projection", "without projection"), zip(SMALL, LARGE, strict=True), strict=True))
"""Lines of accuracy by their names in the legend, each from the variant with small keys to the one with large keys."""

EFFECTS = ("projection", "size", "interaction")
"""The effects on accuracy that the figure `size_and_projection` shows, from the top."""

MOMENTS = (dict(marker="o", mfc="white", ms=4.5), dict(marker="o", ms=4.5))
"""Looks of the mark of an effect: at an early step of the training, hollow, and at the last step."""


def size_and_projection(metrics: pd.DataFrame, settings: Mapping[str, Any]) -> Figure:
    """Draw test accuracies with large and small keys, with projection and without, and the effects of both.

    `metrics` is the table majority_metrics. Each experiment with one width, one learning rate and the variants
    layernorm, scale, layernorm_small and scale_released has a row of panels.
    """
    variants = of_single_points(metrics).groupby("experiment", sort=False).variant
    names = [name for name, present in variants if {*LARGE, *SMALL} <= {*present}]
    figure = plt.figure(figsize=(style.PAGE, 0.4 + 2.2 * len(names)))
    entries: list[style.Look] = []
    for part, name in zip(np.ravel(figure.subfigures(len(names), 1)), names, strict=True):
        part.suptitle(title(settings["majority"][name]), fontsize=7)
        entries = _cells_and_effects(part, metrics[metrics.experiment == name])
    style.legend_below(figure, entries, columns=4)
    return figure


def _cells_and_effects(figure: FigureBase, runs: pd.DataFrame) -> list[style.Look]:
    """Draw the accuracies of the variants CELLS in one experiment, and their effects; return the legend's entries."""
    steps = sorted({*early_and_last(runs)})
    *moments, right = np.ravel(figure.subplots(1, len(steps) + 1, width_ratios=[1] * len(steps) + [1.35]))
    looks = {name: dict(color=BUILT_IN[large].colour, marker="o", ms=4) for name, (_, large) in CELLS.items()}
    entries = []
    for number, (axes, step) in enumerate(zip(moments, steps, strict=True)):
        at = runs[runs.step == step].pivot(index="seed", columns="variant", values="test_accuracy")
        cells = at[[*LARGE, *SMALL]].dropna()
        for shift, (name, (small, large)) in zip((-0.03, 0.03), CELLS.items(), strict=True):
            both = cells[[small, large]].rename(columns={small: shift, large: 1 + shift})
            axes.plot(both.columns, both.T, color=looks[name]["color"], lw=0.5, alpha=0.4)
            style.line(axes, both.melt(), "variant", "value", "bars", **looks[name])
        axes.set(title=f"step {step:,}", xlim=(-0.4, 1.4), xlabel="length of the keys")
        axes.set_xticks([0, 1], ["1/√d (small)", "√d (large)"])
        look = MOMENTS[number - len(steps)] | dict(label=f"effect at step {step:,}", color="black", ls="")
        entries.append(look)
        effects = two_by_two(100 * cells, LARGE, SMALL, "projection")
        for y, name in enumerate(EFFECTS):
            _effect(right, y + 0.28 * (number - (len(steps) - 1) / 2), effects[name], look)
    style.accuracies(*moments)
    moments[0].set_ylabel(style.ACCURACY)
    right.axvline(0, color="black", lw=0.6)
    right.set(ylim=(len(EFFECTS) - 0.5, -0.5), xlabel="effect on accuracy (points)")
    right.set_yticks(range(len(EFFECTS)), EFFECTS)
    right.tick_params(axis="y", length=0)
    seeds = style.number_of([len(cells)], "seed")
    return [look | dict(label=f"{name}, {seeds}") for name, look in looks.items()] + entries


def _effect(axes: Axes, y: float, values: pd.Series, look: style.Look) -> None:
    """Draw the mean of `values`, one a seed, with its interval at height `y`, and the values as small points below."""
    mean, low, high = Estimate.of(values)
    axes.plot(values, np.full(len(values), y + 0.1), ".", ms=2.5, color=style.GREY, alpha=0.5)
    if len(values) >= LEAST_FOR_INTERVAL:
        axes.hlines(y, low, high, color=look["color"], lw=1)
    axes.plot(mean, y, **look)


# Widths

BASE = "scale"
PROJECTED = {
    "layernorm": "projection in Q, K and V (LayerNorm)",
    "layernorm_affine": "projection in Q, K and V, gain and bias",
    "projected_qk": "projection in Q and K",
    "projected_v": "projection in V",
    BASE: "no projection (scaling only)",
}
"""The variant whose accuracy is subtracted from that of others, and entries of a legend that say what is projected."""


def by_d_model(metrics: pd.DataFrame, settings: Mapping[str, Any]) -> Figure:
    """Draw final test accuracy (table majority_metrics), and its difference from the variant scale, against width.

    Each learning rate of an experiment with several widths has a row of panels. Differences (percentage points) are
    left out if the variant scale is missing or there is no other.
    """
    metrics = _with_several(metrics, "d_model")
    looks = style.looks_of(metrics.variant, marker="o", ms=3.2)
    looks = {name: look | dict(label=PROJECTED.get(name, look["label"])) for name, look in looks.items()}
    rows = list(metrics.groupby(["experiment", "base_learning_rate"], sort=False))
    columns = 2 if {BASE} < {*looks} else 1
    size = (style.PAGE if columns == 2 else style.COLUMN, 0.6 + 2.6 * len(rows))
    figure, grid = plt.subplots(len(rows), columns, figsize=size, squeeze=False)
    for row, ((experiment, rate), runs) in zip(grid, rows, strict=True):
        ends = last_rows(runs)
        lines = dict(hue="variant", looks=style.apart(looks, 1.01), x="d_model", spread="bars")
        style.lines(row[0], ends, y="test_accuracy", **lines)
        style.accuracies(row[0])
        of_runs = settings["majority"][experiment]
        row[0].set_ylabel(style.ACCURACY)
        row[0].set_title(f"{of_runs['classes']} classes, learning rate {rate:g}")
        if {BASE} < {*ends.variant}:
            gains = style.differences(ends, BASE, "test_accuracy", "d_model", "seed")
            style.lines(row[1], gains.assign(points=100 * gains.difference), y="points", **lines)
            row[1].axhline(0, color=BUILT_IN[BASE].colour, lw=1.4, zorder=0)
            row[1].set_ylabel("accuracy − that of scaling only\n(percentage points)")
        elif columns == 2:
            row[1].set_axis_off()
        for axes in row:
            axes.set(xscale="log", xlabel="width d")
            style.ticks_at(axes, runs.d_model)
    style.legend_below(figure, style.counted(looks, metrics), columns=3)
    return figure


def _with_several(metrics: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Return the rows of majority_metrics of experiments that have several values in the column `setting`."""
    return metrics[metrics.groupby("experiment")[setting].transform("nunique") > 1]


# Learning rates

_OPEN = dict(mec=style.GREY, mfc="white", mew=1.0, ls="")
BEST = dict(label="best rate for other seeds", mec=style.GREY, marker="o", ms=9, mfc="none", mew=1.1, ls="")
BOUND = dict(label="lower bound", marker="^", ms=5, **_OPEN)
DIVERGED = dict(label="mean with diverged runs, each 0", marker="X", ms=6, **_OPEN)
"""Looks of three marks: the ring around a rate at which runs are judged, a mean of steps of which some runs ended too
early, and a mean accuracy with diverged runs. In the axes their edges have the colour of their variant."""


def by_rate(metrics: pd.DataFrame, settings: Mapping[str, Any]) -> Figure:
    """Draw final test accuracy, and the steps to test loss 0.5 (TEST_LOSS), against the learning rate, by variant.

    `metrics` is the table majority_metrics. Each width of an experiment with several rates has a row of panels.
    """
    metrics = _with_several(metrics, "base_learning_rate")
    rows = list(metrics.groupby(["experiment", "d_model"], sort=False))
    figure, grid = plt.subplots(len(rows), 2, figsize=(style.PAGE, 0.6 + 2.5 * len(rows)), squeeze=False)
    looks = style.looks_of(metrics.variant, marker="o", ms=3, lw=1.1)
    for (left, right), ((experiment, width), runs) in zip(grid, rows, strict=True):
        for variant, look in style.apart(looks, 10**0.03).items():
            if variant in {*runs.variant}:
                _rates(left, right, runs[runs.variant == variant], look)
        left.set_ylabel(style.ACCURACY)
        left.set_title(title(settings["majority"][experiment] | {"d_model": [width]}))
        right.set_ylabel(f"optimiser steps to test loss {TEST_LOSS:g}")
        style.accuracies(left)
        steps = style.heights(right)
        right.set(yscale="log", ylim=(0.7 * steps.min(), 1.4 * steps.max()))
        right.yaxis.set_major_formatter("{x:,.0f}")
        for axes in (left, right):
            style.rates(axes, runs.base_learning_rate)
    style.legend_below(figure, style.counted(looks, metrics), columns=3, further=[BEST, BOUND, DIVERGED])
    return figure


def _rates(left: Axes, right: Axes, runs: pd.DataFrame, look: style.Look) -> None:
    """Draw the accuracy (left) and steps (right) of a variant by the rate, with the marks BEST, BOUND and DIVERGED.

    A run that does not reach the loss counts with its last step; a mean with such runs is a bound, off the line.
    """
    ends, rate = last_rows(runs), "base_learning_rate"
    style.line(left, ends, rate, "test_accuracy", spread="bars", **look)
    arrivals = steps_to_reach(runs, [TEST_LOSS])
    late = arrivals[rate][arrivals.steps.isna()]
    arrivals = arrivals.assign(steps=arrivals.steps.fillna(arrivals.last_step).clip(lower=1))
    complete = arrivals[~arrivals[rate].isin(late)]
    if len(complete):
        style.line(right, complete, rate, "steps", spread="bars", geometric=True, **look)
    accuracy = style.means(ends, rate, "test_accuracy")
    steps = style.means(arrivals, rate, "steps", geometric=True)
    most_accurate, fastest = (best_rates(runs, by, TEST_LOSS)[rate].unique() for by in ("accuracy", "speed"))
    marked = [
        (BEST, left, accuracy.loc[most_accurate]),
        (BEST, right, steps.loc[fastest]),
        (DIVERGED, left, accuracy.loc[sorted({*ends[rate][np.isinf(ends.test_loss)]})]),
        (BOUND, right, steps.loc[sorted({*late})]),
    ]
    for mark, axes, at in marked:
        for place, mean in at["mean"].items():
            axes.plot(place * look["shift"], mean, clip_on=False, **mark | dict(mec=look["color"]))
