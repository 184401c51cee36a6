"""Runs of two reproductions in one figure: losses and query angles, variant by variant."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from layernorm_roles.evidence.analysis.comparison import Shared
from layernorm_roles.evidence.figures import majority, style

HERE = {"lw": 1.1, "ls": "-"}
"""Look of the reproduction whose page it is: thin lines."""

THERE = {"lw": 4.0, "ls": "-", "alpha": 0.35, "solid_capstyle": "butt"}
"""Look of the one that it is compared with: wide pale lines, below the thin ones."""

AXES = majority.AXES | {"valid_loss": "validation loss (nats per token)"}
"""Labels of the y axis, by column of the tables majority_metrics and language_model_metrics."""


def overlay(shared: Shared, columns: Sequence[str], names: tuple[str, str]) -> Figure:
    """Draw means over seeds against the steps, a panel for each of `columns`, for both reproductions.

    `names` are those of the reproduction here and of the one there. A test loss is on a logarithmic axis.
    """
    width = style.PAGE if len(columns) > 1 else 4.4
    figure, (panels,) = plt.subplots(1, len(columns), figsize=(width, 3.4), squeeze=False)
    present = [set(side.variant) for side in (shared.here, shared.there)]
    looks = style.looks(present[0] | present[1])
    for axes, column in zip(panels, columns, strict=True):
        for runs, side in ((shared.there, THERE), (shared.here, HERE)):
            style.lines(axes, runs, "variant", style.each(looks, **side), "step", column, spread=None)
        axes.set(xlabel="optimiser steps", ylabel=AXES[column], xlim=(0, None))
        axes.xaxis.set_major_locator(MaxNLocator(5))
        style.thousands(axes)
        if column == "test_loss":
            style.logarithmic(axes)
        elif column == "query_angle_mean":
            axes.set(ylim=(0, 90), yticks=range(0, 91, 15))
    marks = [
        style.mark(name, color=style.GREY, **side) for name, side in zip(names, (HERE, THERE), strict=True)
    ]
    for variant, look in looks.items():
        sides = [name for name, variants in zip(names, present, strict=True) if variant in variants]
        only = "" if len(sides) > 1 else f", only {sides[0]}"
        marks.append(style.mark(look["label"] + only, color=look["color"]))
    style.legend_below(figure, marks, columns=3 if len(columns) > 1 else 2)
    return figure
