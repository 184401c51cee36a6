"""The majority task by its width: what projection costs everywhere, in queries and keys only, and in values only."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.majority import last_rows
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.rows import runs_of

BASE = "scale"
"""The variant without projection, from which the others are subtracted."""

LEGENDS = {
    "layernorm": "projection in Q, K and V (LayerNorm)",
    "layernorm_affine": "projection in Q, K and V, gain and bias",
    "projected_qk": "projection in Q and K",
    "projected_v": "projection in V",
    "scale": "no projection (scaling only)",
}
"""The legend's entries for the variants with scaling, which say where the projection is; others keep their names."""


def by_width(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw final accuracy by width for all variants, and its difference from BASE with equal seeds.

    metrics: table majority_metrics. There is a row of panels for every learning rate of the experiment, and no panel
    of differences where BASE or another variant is missing.
    """
    runs = runs_of(metrics, "majority_metrics", "experiment", experiment)
    ends = last_rows(runs)
    rates, widths = sorted(runs.base_learning_rate.unique()), sorted(runs.d_model.unique())
    present, palette = legend_order(runs.variant), colours.palette(runs.variant)
    changed = [variant for variant in present if variant != BASE] if BASE in present else []
    columns = 2 if changed else 1
    size = (style.PAGE if changed else style.COLUMN, 0.6 + 2.6 * len(rates))
    figure, grid = plt.subplots(len(rates), columns, figsize=size, sharex=True, squeeze=False)
    for row, rate in zip(grid, rates, strict=True):
        of_rate = ends[ends.base_learning_rate == rate]
        accuracy = of_rate.pivot(index=["d_model", "seed"], columns="variant", values="test_accuracy")
        _curves(row[0], accuracy, present, palette)
        row[0].set(ylabel=style.ACCURACY, xscale="log")
        style.accuracies(
            row[0], means=[float(height) for line in row[0].lines for height in line.get_ydata()]
        )
        if changed:
            _curves(row[1], 100 * accuracy[changed].sub(accuracy[BASE], axis=0), changed, palette)
            row[1].axhline(0, color=palette[BASE], lw=1.4, zorder=0)
            row[1].set_ylabel("accuracy − that of scaling only\n(percentage points)")
        if len(rates) > 1:
            row[0].set_title(f"learning rate {rate:g}")
    for axes in grid[-1]:
        style.ticks_at(axes, widths)
        axes.set_xlabel("width d")
    seeds = runs.groupby("variant").seed.nunique()
    names = {
        variant: colours.counted(LEGENDS.get(variant, colours.label(variant)), seeds[variant])
        for variant in present
    }
    handles = [style.mark(name, color=palette[variant], **look(variant)) for variant, name in names.items()]
    style.legend_below(figure, handles, columns=3)
    return figure


def _curves(axes: Axes, values: pd.DataFrame, drawn: Sequence[str], palette: Mapping[str, str]) -> None:
    """Draw means over seeds by width with their intervals; `values` has an index d_model, seed."""
    for number, variant in enumerate(drawn):
        shift = 1.015 ** (number - (len(drawn) - 1) / 2)
        seeds = values[variant].dropna().groupby("d_model")
        x = [d * shift for d in seeds.groups]
        style.bars(axes, x, [style.of_three(part) for _, part in seeds], palette[variant], **look(variant))


def look(variant: str) -> dict:
    """Return the options of a variant's line, without its colour."""
    return {"ls": colours.stroke(variant), "marker": "o", "ms": 3.2}
