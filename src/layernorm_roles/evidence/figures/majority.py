"""Losses, angles, accuracies and attention of the majority task by the steps (the paper's Figures 2a, 2b and 3)."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from layernorm_roles.evidence.analysis.majority import random_angle
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import style
from layernorm_roles.variants import BUILT_IN, PAPER_PROJECTION

AXES = {
    "train_loss": "training loss (nats per token)",
    "test_loss": "test loss\n(nats per token)",
    "test_accuracy": style.ACCURACY,
    "query_angle_mean": "angle of queries to the\nones vector (degrees)",
    "unequal": "distance from uniform:\n1 − perplexity / classes",
}
"""Labels of the y axis, by column of table majority_metrics; `unequal` is attention's distance from equal."""

COLUMNS = ("test_loss", "test_accuracy", "query_angle_mean", "unequal")
"""What the panels of the figure `grid` show against the steps."""

PAPER = {"d_model": [8], "sequence_length": 50, "classes": 20, "sampling": "depth_first", "split": "rows"}
"""Settings that a majority experiment needs for its numbers to compare with those that the paper reports."""

RANDOM = dict(label="random direction", color="#999999", lw=0.8, ls=":")
REPORTED = dict(label="paper, read off its figure", mec=style.GREY, **style.PAPER_MARK)
"""Looks of the line at the mean angle between a random direction and the ones vector, and of the mark of a number that
the paper reports, whose edge in the axes has the colour of its variant."""


def title(settings: Mapping[str, Any]) -> str:
    """Return a title for an experiment of the majority task: its width, classes and kind of data."""
    data = f"{settings['sampling'].replace('_', '-')} partitions, split by {settings['split']}"
    if (settings["sampling"], settings["split"]) == (PAPER["sampling"], PAPER["split"]):
        data = "released data"
    return f"d = {', '.join(map(str, settings['d_model']))}, {settings['classes']} classes, {data}"


def curves(metrics: pd.DataFrame, settings: Mapping[str, Any], experiment: str, column: str) -> Figure:
    """Draw a column of the table majority_metrics against the optimiser steps, with a curve for each variant.

    Numbers that the paper reports are marked if `experiment` has the paper's sizes and kind of data.
    """
    runs, settings = metrics[metrics.experiment == experiment], settings["majority"][experiment]
    figure, axes = plt.subplots(figsize=(style.PAGE, 3.5))
    looks = style.looks_of(runs.variant)
    _panel(axes, runs, column, looks)
    axes.set_title(title(settings))
    if all(settings[key] == value for key, value in PAPER.items()):
        _mark_paper(axes, runs, column)
    style.legend_below(figure, style.counted(looks, runs), columns=3, further=[REPORTED, RANDOM])
    return figure


def grid(metrics: pd.DataFrame, settings: Mapping[str, Any], experiment: str) -> Figure:
    """Draw test loss, test accuracy, angle of queries to the ones vector, and inequality of attention by step.

    `metrics` is the table majority_metrics. Inequality is 1 - (perplexity of attention) / (number of classes); it is
    drawn as 1e-6 if it is smaller.
    """
    runs = metrics[metrics.experiment == experiment]
    runs = runs.assign(unequal=(1 - runs.attention_share).clip(lower=1e-6))
    figure, panels = plt.subplots(2, 2, figsize=(style.PAGE, 4.9), sharex=True)
    looks = style.looks_of(runs.variant, lw=1.1)
    for axes, column in zip(panels.flat, COLUMNS, strict=True):
        _panel(axes, runs, column, looks)
    for axes in panels[0]:
        axes.set_xlabel("")
    figure.suptitle(title(settings["majority"][experiment]), fontsize=8)
    style.legend_below(figure, style.counted(looks, runs), columns=3, further=[RANDOM])
    return figure


def _panel(axes: Axes, runs: pd.DataFrame, column: str, looks: style.Looks) -> None:
    """Draw a column's means over seeds by the steps, a line a variant; set labels, ticks and limits of the axes."""
    style.lines(axes, runs, "variant", looks, "step", column, spread="seeds")
    axes.set(xlabel="optimiser steps", ylabel=AXES[column], xlim=(0, max(runs.step.max(), 1)))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if column == "query_angle_mean":
        axes.set(ylim=(0, 90), yticks=range(0, 91, 15))
        axes.axhline(random_angle(int(runs.d_model.iloc[0])), zorder=0, **RANDOM)
    elif column == "test_accuracy":
        style.accuracies(axes)
    else:
        style.logarithmic(axes)


def _mark_paper(axes: Axes, runs: pd.DataFrame, column: str) -> None:
    """Mark what the paper reports of a column of majority_metrics, up to the last step of `runs`."""
    for variant in (name for name in PAPER_PROJECTION if (runs.variant == name).any()):
        look = REPORTED | dict(mec=BUILT_IN[variant].colour, zorder=5, clip_on=False)
        for step, value in reported()["majority"][variant].get(column, {}).items():
            if step <= runs.step.max():
                axes.plot(step, float(value), **look)
