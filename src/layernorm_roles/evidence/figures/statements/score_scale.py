"""What the division of attention scores by sqrt(d_k) does, for random vectors and in trained models."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style

DIVIDED = {False: ("not divided", "#D55E00"), True: ("divided by $\\sqrt{d_k}$", "#0072B2")}
"""Label and colour of scores without and with the division."""

COLUMNS = {
    "score_std": ("scores", "standard deviation"),
    "entropy_share": ("entropy of attention", "share of its maximum ln n"),
    "gradient": ("softmax's Jacobian", "trace"),
}
"""Title and label of the y axis for each column that is drawn."""

SOURCES = {"majority": "trained: majority task", "language_model": "trained: language model"}
"""Label of the trained models of each source."""


def score_scale(table: pd.DataFrame) -> Figure:
    """Draw spread of the scores, entropy of attention and trace of the softmax's Jacobian against d_k."""
    figure, grid = plt.subplots(1, 3, figsize=(style.PAGE, 2.8))
    normal = table[table.source == "normal"]
    trained = table[~table.source.str.startswith("normal")]
    markers = dict(zip(sorted(trained.source.unique()), "s^Dv", strict=False))
    d_k = np.array(sorted(normal.d_k.unique()))
    for axes, (column, (title, label)) in zip(grid, COLUMNS.items(), strict=True):
        for divided, (_, colour) in DIVIDED.items():
            part = normal[normal.divided == divided]
            style.mean_line(axes, part, "d_k", column, color=colour, marker="o", ms=3)
            for source, marker in markers.items():
                heads = trained[(trained.source == source) & (trained.divided == divided)]
                _heads(axes, heads, column, marker, colour, shift=0.93 if divided else 1.07)
        axes.set(xscale="log", title=title, ylabel=label, xlabel="dimension of queries and keys, $d_k$")
        axes.xaxis.label.set_size(7)
        axes.set_xlim(0.7 * table.d_k.min(), 1.4 * table.d_k.max())
        style.ticks_at(axes, [d for d in (2, 8, 32, 128, 512) if table.d_k.min() <= d <= table.d_k.max()])
    grid[0].plot(d_k, np.sqrt(d_k), color="#333333", lw=0.7, ls=":")
    grid[0].set_yscale("log")
    grid[1].set_ylim(0, 1.02)
    grid[2].set_ylim(0, 1.02)
    handles = [style.mark(label, color=colour, marker="o", ms=3) for label, colour in DIVIDED.values()]
    handles.append(style.mark("$\\sqrt{d_k}$", color="#333333", lw=0.7, ls=":"))
    look = {"ls": "", "mfc": "none", "mec": style.GREY, "ms": 3}
    handles += [
        style.mark(SOURCES.get(name, name), marker=marker, **look) for name, marker in markers.items()
    ]
    title = style.seeds_title([normal.seed.nunique()], "lines are means")
    style.legend_below(figure, handles, columns=5, **title)
    return figure


def _heads(axes: Axes, table: pd.DataFrame, column: str, marker: str, colour: str, shift: float) -> None:
    """Draw every head of trained models as an open mark, `shift` times right of its d_k to part the divisions."""
    keys = ["variant", "seed", "layer", "head"]
    heads = table.groupby(keys, dropna=False)[["d_k", column]].mean()
    look = {"ls": "", "mfc": "none", "mec": colour, "ms": 3, "mew": 0.5, "alpha": 0.6}
    axes.plot(heads.d_k * shift, heads[column], marker=marker, clip_on=False, **look)
