"""Size of the keys and their projection, crossed: four variants of the majority task, early and late in training."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import early_and_last, two_by_two
from layernorm_roles.evidence.figures import colours, style

CELLS = {
    "with projection": ("layernorm_small", "layernorm"),
    "without projection": ("scale_released", "scale"),
}
"""Each line of the figure, and its variants: small keys, large keys."""

SIZES = ("1/√d (small)", "√d (large)")
"""What the two places of the x axis stand for."""

EFFECTS = ("projection", "size", "interaction")
"""The effects of the right panel, from the top."""


def size_and_projection(metrics: pd.DataFrame, setting: Mapping[str, Any]) -> Figure:
    """Draw the accuracy in the four cells, early and at the end, and the two main effects with their interaction.

    metrics: table majority_metrics. `setting` describes the experiment: experiment, title (see `registry`).
    """
    runs = metrics[metrics.experiment == setting["experiment"]]
    moments = dict(zip(("early", "end"), early_and_last(runs), strict=True))
    figure, panels = plt.subplots(1, 3, figsize=(style.PAGE, 2.9), width_ratios=[1, 1, 1.35])
    for axes, step in zip(panels, moments.values(), strict=False):
        cells = accuracies(runs, step)
        _cells(axes, cells)
        axes.set_title(f"step {step:,}")
    drawn = [accuracy for axes in panels[:2] for line in axes.lines for accuracy in line.get_ydata()]
    style.accuracies(*panels[:2], means=drawn)
    panels[0].set_ylabel(style.ACCURACY)
    panels[1].tick_params(labelleft=False)
    effects = {name: two_by_two(100 * accuracies(runs, step))._asdict() for name, step in moments.items()}
    _effects(panels[2], effects, moments)
    figure.suptitle(setting["title"].replace("\n", ", "), fontsize=7)
    seeds = len(accuracies(runs, moments["end"]))
    handles = [
        *(
            style.mark(colours.counted(name, seeds), color=colours.COLOURS[large], marker="o", ms=4)
            for name, (_, large) in CELLS.items()
        ),
        *(
            style.mark(f"effect at step {moments[name]:,}", color="black", ls="", **look)
            for name, look in _MARKS.items()
        ),
    ]
    style.legend_below(figure, handles, columns=4)
    return figure


def accuracies(runs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Test accuracy at a step: a row for each seed that all four variants have, a column for each of them."""
    at = runs[runs.step == step].pivot(index="seed", columns="variant", values="test_accuracy")
    return at[[variant for pair in CELLS.values() for variant in pair]].dropna()


def _cells(axes: Axes, cells: pd.DataFrame) -> None:
    for shift, (small, large) in zip((-0.03, 0.03), CELLS.values(), strict=True):
        colour = colours.COLOURS[large]
        x = [shift, 1 + shift]
        axes.plot(x, cells[[small, large]].T, color=colour, lw=0.5, alpha=0.4)
        style.bars(axes, x, [Estimate.of(cells[name]) for name in (small, large)], colour, marker="o", ms=4)
    axes.set(xlim=(-0.4, 1.4), xticks=[0, 1], xlabel="length of the keys")
    axes.set_xticklabels(SIZES)


_MARKS = {"early": {"marker": "o", "mfc": "white", "ms": 4.5}, "end": {"marker": "o", "ms": 4.5}}


def _effects(axes: Axes, effects: Mapping[str, Mapping[str, pd.Series]], moments: Mapping[str, int]) -> None:
    """Draw each effect at both moments with its interval, and the seeds as small points."""
    axes.axvline(0, color="black", lw=0.6)
    for moment, shift in zip(moments, (-0.14, 0.14), strict=True):
        for y, name in enumerate(EFFECTS):
            values = effects[moment][name]
            mean, low, high = Estimate.of(values)
            axes.plot(values, np.full(len(values), y + shift + 0.1), ".", ms=2.5, color=style.GREY, alpha=0.5)
            axes.hlines(y + shift, low, high, color="black", lw=1)
            axes.plot(mean, y + shift, color="black", ls="", **_MARKS[moment])
    axes.set(
        ylim=(len(EFFECTS) - 0.5, -0.5), yticks=range(len(EFFECTS)), xlabel="effect on accuracy (points)"
    )
    axes.set_yticklabels(EFFECTS)
    axes.tick_params(axis="y", length=0)
