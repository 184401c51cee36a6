"""Runs of two reproductions in one figure: losses and query angles, variant by variant."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from layernorm_roles.evidence.analysis.comparison import Shared
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.majority import logarithmic

HERE = {"lw": 1.1}
"""Look of the reproduction whose page it is: thin lines."""

THERE = {"lw": 4.0, "alpha": 0.35, "solid_capstyle": "butt"}
"""Look of the one that it is compared with: wide pale lines, below the thin ones."""

AXES = {
    "test_loss": "test loss (nats per token)",
    "query_angle_mean": "angle of queries to\nones vector (degrees)",
    "valid_loss": "validation loss (nats per token)",
}
"""Label of the y axis for each column that is drawn."""


def overlay(shared: Shared, columns: Sequence[str], names: tuple[str, str]) -> Figure:
    """Draw means over seeds against the steps, a panel for each of `columns`, for both reproductions.

    `names` are those of the reproduction here and of the one there. A test loss is on a logarithmic axis.
    """
    width = style.PAGE if len(columns) > 1 else 4.4
    figure, grid = plt.subplots(1, len(columns), figsize=(width, 3.4), squeeze=False)
    sides = ((shared.there, THERE), (shared.here, HERE))
    variants = legend_order([*shared.here.variant, *shared.there.variant])
    palette = colours.palette(variants)
    for axes, column in zip(grid[0], columns, strict=True):
        for runs, look in sides:
            means = runs.groupby(["variant", "step"])[column].mean()
            for variant in legend_order(runs.variant):
                line = means[variant]
                axes.plot(line.index, line, color=palette[variant], **look)
        axes.set(xlabel="optimiser steps", ylabel=AXES[column], xlim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        style.thousands(axes)
        if column == "test_loss":
            logarithmic(axes)
        elif column == "query_angle_mean":
            axes.set(ylim=(0, 90), yticks=range(0, 91, 15))
    marks = [
        style.mark(name, color=style.GREY, **look) for name, look in zip(names, (HERE, THERE), strict=True)
    ]
    marks += [style.mark(_label(variant, shared, names), color=palette[variant]) for variant in variants]
    style.legend_below(figure, marks, columns=3 if len(columns) > 1 else 2)
    return figure


def _label(variant: str, shared: Shared, names: tuple[str, str]) -> str:
    """The variant's name, and which reproduction has it where the other one has not."""
    sides = [
        name for name, runs in zip(names, (shared.here, shared.there), strict=True) if _has(runs, variant)
    ]
    label = colours.label(variant)
    return label if len(sides) > 1 else f"{label}, only {sides[0]}"


def _has(runs: pd.DataFrame, variant: str) -> bool:
    return bool((runs.variant == variant).any())
