"""What the division of attention scores by sqrt(d_k) does, for random vectors."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from layernorm_roles.evidence.figures import style

DIVIDED = {
    False: {"label": "not divided", "color": "#D55E00", "marker": "o", "ms": 3},
    True: {"label": "divided by $\\sqrt{d_k}$", "color": "#0072B2", "marker": "o", "ms": 3},
}
"""Look of scores without and with the division."""

COLUMNS = {
    "score_std": ("scores", "standard deviation"),
    "entropy_share": ("entropy of attention", "share of its maximum ln n"),
    "gradient": ("softmax's Jacobian", "trace"),
}
"""Title and label of the y axis for each column that is drawn."""

ROOT = {"label": "$\\sqrt{d_k}$", "color": "#333333", "lw": 0.7, "ls": ":"}


def score_scale(table: pd.DataFrame) -> Figure:
    """Draw spread of the scores, entropy of attention and trace of the softmax's Jacobian against d_k.

    table: score_scale, of which queries and keys of mean 0 are drawn.
    """
    figure, panels = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    normal = table[table.source == "normal"]
    for axes, (column, (title, label)) in zip(panels, COLUMNS.items(), strict=True):
        style.lines(axes, normal, "divided", DIVIDED, "d_k", column)
        axes.set(xscale="log", title=title, ylabel=label)
        axes.set_xlabel("dimension of queries and keys, $d_k$", fontsize=7)
        style.ticks_at(axes, [d for d in (2, 8, 32, 128, 512) if normal.d_k.min() <= d <= normal.d_k.max()])
    d_k = np.array(sorted(normal.d_k.unique()))
    panels[0].plot(d_k, np.sqrt(d_k), **ROOT)
    panels[0].set_yscale("log")
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    for axes in panels[1:]:
        axes.set_ylim(0, 1.02)
    handles = [*style.marks(DIVIDED), style.mark(**ROOT)]
    title = style.seeds_title([normal.seed.nunique()])
    style.legend_below(figure, handles, columns=3, **title)
    return figure
