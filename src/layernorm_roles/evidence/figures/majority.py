"""Losses, angles and accuracies of the majority task against the steps (the paper's Figures 2a, 2b and 3)."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from matplotlib.transforms import offset_copy

from layernorm_roles.evidence.analysis.majority import random_angle
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.rows import runs_of
from layernorm_roles.variants import PAPER_PROJECTION

PAPER_LAST_STEP = 6000
"""The step where the paper's Figures 2a and 3 end, read off them."""

BEYOND = 0.42
"""How far right of the axes the paper's values stand that come after the last step of the runs, in inches."""

AXES = {
    "train_loss": "training loss (nats per token)",
    "test_loss": "test loss (nats per token)",
    "test_accuracy": "test accuracy (share of tokens)",
    "query_angle_mean": "angle of queries to\nones vector (degrees)",
    "score_std": "standard deviation of a query's\nscores over the classes",
    "attention_share": "perplexity of attention /\nnumber of classes",
}
"""Label of the y axis for each column of majority_metrics that is drawn."""

RANDOM = {"color": "#999999", "lw": 0.8, "ls": ":"}
"""Look of the mean angle of a random direction."""

EQUAL = {"color": style.GREY, "lw": 0.8, "ls": ":"}
"""Look of what equal attention to all classes is."""


def paper_curves(metrics: pd.DataFrame, column: str, setting: Mapping[str, Any]) -> Figure:
    """Draw a column of majority_metrics for the paper's two variants, as far as the paper's figure goes.

    `setting` describes the experiment: experiment, title, d_model, as_in_the_paper (see `registry`).
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", setting["experiment"], PAPER_PROJECTION)
    if column != "query_angle_mean":
        runs = runs[runs.step <= PAPER_LAST_STEP]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.9))
    _draw_curves(axes, runs, column, setting)
    if column == "train_loss":
        axes.set_ylim(0, 2.5)
    style.legend_below(figure, _legend(runs, column, setting), columns=1)
    return figure


def all_curves(metrics: pd.DataFrame, column: str, setting: Mapping[str, Any]) -> Figure:
    """Draw a column of majority_metrics for all variants of an experiment, a loss on a logarithmic axis.

    `setting` describes the experiment: experiment, title, d_model, as_in_the_paper (see `registry`).
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", setting["experiment"])
    figure, axes = plt.subplots(figsize=(style.PAGE, 3.6))
    _draw_curves(axes, runs, column, setting)
    if column.endswith("loss"):
        logarithmic(axes)
    style.legend_below(figure, _legend(runs, column, setting), columns=3)
    return figure


def attention(metrics: pd.DataFrame, setting: Mapping[str, Any]) -> Figure:
    """Draw how equally the queries of all variants attend to the classes: spread of scores, share of the classes.

    `setting` describes the experiment: experiment, title, d_model, as_in_the_paper (see `registry`).
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", setting["experiment"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.PAGE, 3.3), sharex=True)
    for axes, column in ((left, "score_std"), (right, "attention_share")):
        _draw_curves(axes, runs, column, setting | {"title": ""})
    left.set_ylim(bottom=0)
    right.axhline(1, zorder=0, **EQUAL)
    right.set_ylim(top=1.02)
    figure.suptitle(setting["title"].replace("\n", ", "), fontsize=7)
    handles = [*_legend(runs, "score_std", setting), style.mark("equal attention", **EQUAL)]
    style.legend_below(figure, handles, columns=3)
    return figure


def samplings(metrics: pd.DataFrame, settings: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw test loss and query angle of two experiments side by side, for the variants and steps they share."""
    parts = [
        runs_of(metrics, "majority_metrics", "experiment", setting["experiment"]) for setting in settings
    ]
    shared = set.intersection(*(set(part.variant) for part in parts))
    last = min(part.step.max() for part in parts)
    parts = [part[part.variant.isin(shared) & (part.step <= last)] for part in parts]
    figure, grid = plt.subplots(2, 2, figsize=(style.PAGE, 4.6), sharex=True, sharey="row")
    for (above, below), part, setting in zip(grid.T, parts, settings, strict=True):
        _draw_curves(above, part, "test_loss", setting | {"as_in_the_paper": False})
        _draw_curves(below, part, "query_angle_mean", setting | {"as_in_the_paper": False})
        above.set_xlabel("")
        below.set_title("")
    logarithmic(*grid[0])
    for axes in grid[:, 1]:
        axes.set_ylabel("")
    handles = _legend(pd.concat(parts), "query_angle_mean", {"as_in_the_paper": False})
    style.legend_below(figure, handles, columns=3)
    return figure


def _draw_curves(axes: Axes, runs: pd.DataFrame, column: str, setting: Mapping[str, Any]) -> None:
    """Draw lines and the paper's values; set title, labels, ticks and limits of the axes."""
    palette = colours.palette(runs.variant)
    for variant in legend_order(runs.variant):
        part = runs[runs.variant == variant]
        style.seeds_line(axes, part, column, color=palette[variant], ls=colours.stroke(variant))
    last = max(runs.step.max(), 1)
    beyond = set()
    for variant, step, value in _paper_values(runs, column, setting):
        look = style.PAPER_MARK | {"mec": colours.COLOURS[variant], "zorder": 5, "clip_on": False}
        if step <= last:
            axes.plot(step, value, **look)
        else:
            right = offset_copy(axes.get_yaxis_transform(), axes.figure, x=BEYOND)
            axes.plot(1, value, transform=right, **look)
            beyond.add(step)
    for step in beyond:
        _name_step_beyond(axes, step)
    axes.set(xlabel="optimiser steps", ylabel=AXES[column])
    axes.set_title(setting["title"], fontsize=7)
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    style.thousands(axes)
    if column == "query_angle_mean":
        axes.set(ylim=(0, 90), yticks=range(0, 91, 15))
        _mark_random(axes, setting["d_model"])
    elif column == "test_accuracy":
        axes.set_ylim(top=1.0)


def _name_step_beyond(axes: Axes, step: int) -> None:
    """Write a step that comes after the end of the axis below the marks of its values, like the label of a tick."""
    look = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "center", "fontsize": 7}
    axes.annotate(f"{step:,}", (1, 0), xytext=(72 * BEYOND, -8.2), va="top", **look)
    axes.annotate("//", (1, 0), xytext=(72 * BEYOND / 3, 0), va="center", **look)


def _paper_values(
    runs: pd.DataFrame, column: str, setting: Mapping[str, Any]
) -> list[tuple[str, int, float]]:
    """Return (variant, step, value) for what the paper reports of an experiment in the paper's setting.

    Values up to twice the last step of the runs are among them.
    """
    if not setting["as_in_the_paper"]:
        return []
    last = 2 * runs.step.max()
    return [
        (variant, step, float(value))
        for variant in PAPER_PROJECTION
        if variant in set(runs.variant)
        for step, value in reported()["majority"][variant].get(column, {}).items()
        if step <= last
    ]


def _legend(runs: pd.DataFrame, column: str, setting: Mapping[str, Any]) -> list:
    """Return the entries of the legend: variants with their number of seeds, and only the marks that are drawn."""
    palette = colours.palette(runs.variant)
    seeds = runs.groupby(["variant", "experiment"], sort=False).seed.nunique()
    handles = [
        style.mark(
            colours.counted(colours.label(variant), *seeds[variant]),
            color=palette[variant],
            ls=colours.stroke(variant),
        )
        for variant in legend_order(runs.variant)
    ]
    if (seeds < style.ENOUGH_SEEDS).any():
        handles.append(style.single_run())
    if _paper_values(runs, column, setting):
        handles.append(style.mark("paper, read off its figure", mec=style.GREY, **style.PAPER_MARK))
    if column == "query_angle_mean":
        handles.append(style.mark("random direction", **RANDOM))
    return handles


def logarithmic(*axes: Axes) -> None:
    """Give axes that share their y axis a logarithmic one, with limits around what is drawn in any of them."""
    drawn = np.concatenate(
        [np.asarray(line.get_ydata(), dtype=float) for each in axes for line in each.lines]
    )
    drawn = drawn[np.isfinite(drawn) & (drawn > 0)]
    for each in axes:
        each.set_yscale("log")
        each.set_yticks([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5])
        each.set_ylim(0.9 * drawn.min(), 1.1 * drawn.max())
        each.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
        each.yaxis.set_minor_formatter(NullFormatter())


def _mark_random(axes: Axes, d_model: int) -> None:
    """Draw the mean angle between a random direction and a fixed one in d_model dimensions as a dotted line."""
    angle = random_angle(d_model)
    axes.axhline(angle, zorder=0, **RANDOM)
