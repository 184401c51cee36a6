"""Whether one matrix can stand for W_O and W_1, by what is between them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style

ARRANGEMENTS = {
    "plain": {"label": "nothing between", "color": "#7F7F7F", "marker": "o"},
    "norm": {"label": "LayerNorm", "color": "#0072B2", "marker": "s"},
    "residual": {"label": "residual", "color": "#E69F00", "marker": "^", "lw": 2.2},
    "residual_norm": {"label": "residual and LayerNorm", "color": "#009E73", "marker": "D", "ls": "--"},
}
"""Label and look of what stands between W_O and W_1; the wide and the dashed line coincide and show both."""

INPUTS = {"heads": "map of the heads c", "stream_and_heads": "map of stream and heads [x, c]"}
"""Title of the panel for each kind of single map, by what the map reads."""

EXACT = 1e-20
"""A share of variance below this is rounding; it is drawn on the lower axes."""


def fusion(table: pd.DataFrame) -> Figure:
    """Draw what the best single map misses, of the heads alone and of stream and heads, and what it costs.

    The axis of the errors is broken: below the gap lie the errors that are exact to rounding.
    """
    layout = [["heads", "stream_and_heads", "cost"], ["heads_exact", "stream_and_heads_exact", "cost"]]
    figure, axes = plt.subplot_mosaic(
        layout, figsize=(style.PAGE, 3.4), height_ratios=[3.2, 1], width_ratios=[1, 1, 0.9]
    )
    square = table[table.d_heads == table.d]
    large = table.error[table.error > EXACT]
    limits = (10 ** np.floor(np.log10(large.min())) if len(large) else 1e-3, 1.3)
    for inputs, title in INPUTS.items():
        part = square[square.inputs == inputs]
        upper, lower = axes[inputs], axes[f"{inputs}_exact"]
        _errors(upper, part[part.error > EXACT])
        _errors(lower, part[part.error <= EXACT], band=False)
        upper.set(yscale="log", ylim=limits, title=title, xscale="log")
        lower.set_yscale("symlog", linthresh=1e-33)
        lower.set(ylim=(0, 1e-24), yticks=[1e-32, 1e-26], xlabel="d_model", xscale="log")
        style.ticks_at(upper, sorted(square.d.unique()))
        style.ticks_at(lower, sorted(square.d.unique()))
        _break(upper, lower)
    axes["heads"].set_ylabel("share of variance missed\nby the best map")
    axes["heads_exact"].set_ylabel("rounding")
    _cost(axes["cost"], table)
    handles = [style.mark(ms=3.5, **look) for look in ARRANGEMENTS.values()]
    if (table.source != "random").any():
        look = {"ls": "", "marker": "o", "mfc": "none", "mec": style.GREY, "ms": 3.5}
        handles.append(style.mark("trained, one layer and seed", **look))
    random = table[table.source == "random"].seed.nunique()
    style.legend_below(figure, handles, columns=5, **style.seeds_title([random], "lines are means"))
    return figure


def _errors(axes: Axes, part: pd.DataFrame, band: bool = True) -> None:
    """Draw the errors by d_model: lines for random weights, open marks for the layers of trained models.

    The interval of rounding errors would reach below 0; `band` says whether to draw the intervals.
    """
    for name, look in ARRANGEMENTS.items():
        rows = part[part.arrangement == name]
        random, trained = rows[rows.source == "random"], rows[rows.source != "random"]
        if band:
            style.mean_line(axes, random, "d", "error", ms=3.5, zorder=3, **look)
        else:
            means = random.groupby("d").error.mean()
            axes.plot(means.index, means, ms=3.5, zorder=3, **look)
        spread = 1 + 0.08 * (trained.layer - trained.layer.mean())  # side by side, the first layer left
        marks = {"marker": look["marker"], "mfc": "none", "mec": look["color"], "ms": 3.5, "mew": 0.7}
        axes.plot(trained.d * spread, trained.error, ls="", **marks)


def _break(upper: Axes, lower: Axes) -> None:
    """Show that the y axis of `lower` does not go on where that of `upper` ends."""
    upper.spines.bottom.set_visible(False)
    upper.tick_params(axis="x", bottom=False, labelbottom=False)
    look = {
        "marker": [(-1, -0.6), (1, 0.6)],
        "ms": 6,
        "ls": "",
        "color": "black",
        "mew": 0.8,
        "clip_on": False,
    }
    upper.plot([0], [0], transform=upper.transAxes, **look)
    lower.plot([0], [1], transform=lower.transAxes, **look)


def _cost(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the entries of the single map over those of W_O and W_1, by the width of the heads."""
    random = table[(table.source == "random") & (table.arrangement == "plain") & (table.d == table.d.max())]
    looks = {"heads": ("map of c", "#7F7F7F", "-"), "stream_and_heads": ("map of [x, c]", "#CC79A7", "--")}
    for inputs, (label, colour, line) in looks.items():
        part = random[random.inputs == inputs].drop_duplicates("d_heads").sort_values("d_heads")
        ratio = part.parameters_single / part.parameters_pair
        axes.plot(part.d_heads / part.d, ratio, line, marker="o", color=colour, ms=3.5, label=label)
    axes.axhline(1, color=style.GREY, lw=0.7, ls=":")
    axes.set(xlabel="heads' width over d_model", ylim=(0, None), xscale="log")
    style.ticks_at(axes, sorted((random.d_heads / random.d).unique()))
    axes.set(title="size of the map", ylabel="entries over those of $W_O$, $W_1$")
    axes.legend()
