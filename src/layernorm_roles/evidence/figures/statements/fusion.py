"""Whether one matrix can stand for W_O and W_1, by what is between them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style

SIZE = {"ms": 3.5}
ARRANGEMENTS = {
    "plain": {"label": "nothing between", "color": "#7F7F7F", "marker": "o"} | SIZE,
    "norm": {"label": "LayerNorm", "color": "#0072B2", "marker": "s"} | SIZE,
    "residual": {"label": "residual", "color": "#E69F00", "marker": "^", "lw": 2.2} | SIZE,
    "residual_norm": {"label": "residual and LayerNorm", "color": "#009E73", "marker": "D", "ls": "--"}
    | SIZE,
}
"""Look of what stands between W_O and W_1; the wide and the dashed line coincide and show both."""

INPUTS = {"heads": "map of the heads c", "stream_and_heads": "map of stream and heads [x, c]"}
"""Title of the panel for each kind of single map, by what the map reads."""

COSTS = {
    "heads": {"label": "map of c", "color": "#7F7F7F", "marker": "o"} | SIZE,
    "stream_and_heads": {"label": "map of [x, c]", "color": "#CC79A7", "ls": "--", "marker": "o"} | SIZE,
}

TRAINED = {"ls": "", "mfc": "none"} | SIZE
"""Look of a layer of a trained model."""

EXACT = 1e-20
"""A share of variance below this is rounding; it is drawn on the lower axes."""

BREAK = {"marker": [(-1, -0.6), (1, 0.6)], "ms": 6, "ls": "", "color": "black", "mew": 0.8, "clip_on": False}
"""Look of the stroke that shows that an axis is broken."""


def fusion(table: pd.DataFrame) -> Figure:
    """Draw what the best single map misses, of the heads alone and of stream and heads, and what it costs.

    table: fusion. The axis of the errors is broken: below the gap lie the errors that are exact to rounding.
    """
    layout = [["heads", "stream_and_heads", "cost"], ["heads_exact", "stream_and_heads_exact", "cost"]]
    ratios = {"height_ratios": [3.2, 1], "width_ratios": [1, 1, 0.9]}
    figure, axes = plt.subplot_mosaic(layout, figsize=(style.PAGE, 3.4), **ratios)
    square = table[table.d_heads == table.d]
    large = table.error[table.error > EXACT]
    limits = (10 ** np.floor(np.log10(large.min())) if len(large) else 1e-3, 1.3)
    for inputs, title in INPUTS.items():
        part = square[square.inputs == inputs]
        upper, lower = axes[inputs], axes[f"{inputs}_exact"]
        _errors(upper, part[part.error > EXACT], "band")
        _errors(lower, part[part.error <= EXACT], None)  # the interval of rounding errors would reach below 0
        upper.set(yscale="log", ylim=limits, title=title, xscale="log")
        lower.set_yscale("symlog", linthresh=1e-33)
        lower.set(ylim=(0, 1e-24), yticks=[1e-32, 1e-26], xlabel="d_model", xscale="log")
        for panel in (upper, lower):
            style.ticks_at(panel, square.d)
        upper.spines.bottom.set_visible(False)
        upper.tick_params(axis="x", bottom=False, labelbottom=False)
        upper.plot([0], [0], transform=upper.transAxes, **BREAK)
        lower.plot([0], [1], transform=lower.transAxes, **BREAK)
    axes["heads"].set_ylabel("share of variance missed\nby the best map")
    axes["heads_exact"].set_ylabel("rounding")
    _cost(axes["cost"], table)
    handles = style.marks(ARRANGEMENTS)
    if (table.source != "random").any():
        handles.append(style.mark("trained, one layer and seed", marker="o", mec=style.GREY, **TRAINED))
    random = table[table.source == "random"].seed.nunique()
    style.legend_below(figure, handles, columns=5, **style.seeds_title([random], "lines are means"))
    return figure


def _errors(axes: Axes, part: pd.DataFrame, spread: str | None) -> None:
    """Draw the errors by d_model: lines for random weights, open marks for the layers of trained models."""
    random, trained = part[part.source == "random"], part[part.source != "random"]
    style.lines(axes, random, "arrangement", ARRANGEMENTS, "d", "error", spread=spread, zorder=3)
    for name, rows in trained.groupby("arrangement"):
        apart = 1 + 0.08 * (rows.layer - rows.layer.mean())  # side by side, the first layer left
        marker, colour = ARRANGEMENTS[name]["marker"], ARRANGEMENTS[name]["color"]
        axes.plot(rows.d * apart, rows.error, marker=marker, mec=colour, mew=0.7, **TRAINED)


def _cost(axes: Axes, table: pd.DataFrame) -> None:
    """Draw the entries of the single map over those of W_O and W_1, by the width of the heads."""
    random = table[(table.source == "random") & (table.arrangement == "plain") & (table.d == table.d.max())]
    widths, entries = random.d_heads / random.d, random.parameters_single / random.parameters_pair
    ratios = random.assign(width=widths, entries=entries)
    style.lines(axes, ratios, "inputs", COSTS, "width", "entries", spread=None)
    axes.axhline(1, color=style.GREY, lw=0.7, ls=":")
    axes.set(title="size of the map", xlabel="heads' width over d_model", xscale="log", ylim=(0, None))
    axes.set_ylabel("entries over those of $W_O$, $W_1$")
    style.ticks_at(axes, widths)
    axes.legend()
