"""Whether one matrix can stand for W_O and W_1, by what is between them."""

import matplotlib.pyplot as plt
import pandas as pd
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

TRAINED = {"ls": "", "mfc": "none", "mew": 0.7} | SIZE
"""Look of a layer of a trained model."""


def fusion(table: pd.DataFrame) -> Figure:
    """Draw what the best single map of the heads misses, by the width of the stream.

    table: fusion. Lines are random weights, open marks the layers of trained models, side by side.
    """
    figure, axes = plt.subplots(figsize=(style.PAGE, 2.9))
    table = table.assign(percent=100 * table.error)
    random, trained = table[table.source == "random"], table[table.source != "random"]
    style.lines(axes, random, "arrangement", ARRANGEMENTS, "d", "percent")
    for name, rows in trained.groupby("arrangement"):
        apart = 1 + 0.08 * (rows.layer - rows.layer.mean())
        marker, colour = ARRANGEMENTS[name]["marker"], ARRANGEMENTS[name]["color"]
        axes.plot(rows.d * apart, rows.percent, marker=marker, mec=colour, **TRAINED)
    axes.set(xscale="log", xlabel="width of the stream, d_model")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(ylim=(-0.01, 110), yticks=[0, 0.1, 1, 10, 100], yticklabels=["0", "0.1", "1", "10", "100"])
    axes.set_ylabel("variance missed\nby the best map (%)")
    style.ticks_at(axes, table.d)
    handles = style.marks(ARRANGEMENTS)
    if len(trained):
        handles.append(style.mark("trained, one layer and seed", marker="o", mec=style.GREY, **TRAINED))
    title = style.seeds_title([random.seed.nunique()], "lines are means")
    style.legend_below(figure, handles, columns=5, **title)
    return figure
