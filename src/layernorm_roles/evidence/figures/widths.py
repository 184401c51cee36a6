"""The majority task by its width: what projection costs everywhere, in queries and keys only, and in values only."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.figures import colours, style

BASE = "scale"
"""The variant without projection, from which the others are subtracted."""

PROJECTED = {
    "layernorm": "projection in Q, K and V (LayerNorm)",
    "layernorm_affine": "projection in Q, K and V, gain and bias",
    "projected_qk": "projection in Q and K",
    "projected_v": "projection in V",
}
"""The variants whose difference from BASE is drawn, all of them with scaling, and their entries in the legend."""


def by_width(metrics: pd.DataFrame, experiment: str) -> Figure:
    """Draw final accuracy by width for all variants, and what projection adds to it, with equal seeds.

    metrics: table majority_metrics. There is a row of panels for every learning rate of the experiment.
    """
    runs = metrics[metrics.experiment == experiment]
    if runs.empty:
        raise ValueError(f"majority_metrics: no runs of experiment {experiment!r} to draw")
    ends = runs[runs.step == runs.step.max()]
    rates, widths = sorted(runs.base_learning_rate.unique()), sorted(runs.d_model.unique())
    present, palette = legend_order(runs.variant), colours.palette(runs.variant)
    figure, grid = plt.subplots(
        len(rates), 2, figsize=(style.PAGE, 0.6 + 2.6 * len(rates)), sharex=True, squeeze=False
    )
    for (left, right), rate in zip(grid, rates, strict=True):
        runs_of_rate = ends[ends.base_learning_rate == rate]
        accuracy = runs_of_rate.pivot(index=["d_model", "seed"], columns="variant", values="test_accuracy")
        changed = [variant for variant in present if variant in PROJECTED]
        for axes, drawn, values in (
            (left, present, accuracy),
            (right, changed, 100 * accuracy[changed].sub(accuracy[BASE], axis=0)),
        ):
            for number, variant in enumerate(drawn):
                shift = 1.015 ** (number - (len(drawn) - 1) / 2)
                seeds = values[variant].dropna().groupby("d_model")
                x = [d * shift for d in seeds.groups]
                style.bars(
                    axes, x, [style.of_three(part) for _, part in seeds], palette[variant], **look(variant)
                )
        left.set(ylabel="test accuracy (%)", xscale="log")
        style.accuracies(left, means=[height for line in left.lines for height in line.get_ydata()])
        right.axhline(0, color=palette[BASE], lw=1.4, zorder=0)
        right.set(ylabel="accuracy with projection − without\n(percentage points)")
        if len(rates) > 1:
            left.set_title(f"learning rate {rate:g}")
    for axes in grid[-1]:
        style.ticks_at(axes, widths)
        axes.set_xlabel("width d")
    words = {BASE: "no projection (scaling only)"} | PROJECTED
    handles = [
        style.mark(words.get(variant, colours.label(variant)), color=palette[variant], **look(variant))
        for variant in present
    ]
    style.legend_below(figure, handles, columns=3)
    return figure


def look(variant: str) -> dict:
    """Return the options of a variant's line, without its colour."""
    return {"ls": colours.stroke(variant), "marker": "o", "ms": 3.2}
