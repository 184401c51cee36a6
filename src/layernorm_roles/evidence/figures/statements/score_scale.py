"""What the division of attention scores by sqrt(d_k) does, for random vectors and in trained models."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

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

SOURCES = {"majority": "trained: majority task", "language_model": "trained: language model"}
"""Label of the trained models of each source."""

ROOT = {"label": "$\\sqrt{d_k}$", "color": "#333333", "lw": 0.7, "ls": ":"}
HEAD = {"ls": "", "mfc": "none", "ms": 3, "mew": 0.5}
"""Look of a head of a trained model."""


def score_scale(table: pd.DataFrame) -> Figure:
    """Draw spread of the scores, entropy of attention and trace of the softmax's Jacobian against d_k.

    table: score_scale. Lines are random normal vectors, open marks the heads of trained models; scores that were
    divided by sqrt(d_k) stand left of their d_k.
    """
    figure, panels = plt.subplots(1, 3, figsize=(style.PAGE, 2.8))
    normal = table[table.source == "normal"]
    trained = table[~table.source.str.startswith("normal")]
    heads = trained.groupby(["source", "divided", "variant", "seed", "layer", "head"], dropna=False)
    heads = heads[["d_k", *COLUMNS]].mean().reset_index()
    markers = dict(zip(sorted(trained.source.unique()), "s^Dv", strict=False))
    for axes, (column, (title, label)) in zip(panels, COLUMNS.items(), strict=True):
        style.lines(axes, normal, "divided", DIVIDED, "d_k", column)
        for (source, divided), part in heads.groupby(["source", "divided"]):
            look = HEAD | {"marker": markers[source], "mec": DIVIDED[divided]["color"], "alpha": 0.6}
            axes.plot(part.d_k * (0.93 if divided else 1.07), part[column], clip_on=False, **look)
        axes.set(xscale="log", title=title, ylabel=label, xlim=(0.7 * table.d_k.min(), 1.4 * table.d_k.max()))
        axes.set_xlabel("dimension of queries and keys, $d_k$", fontsize=7)
        style.ticks_at(axes, [d for d in (2, 8, 32, 128, 512) if table.d_k.min() <= d <= table.d_k.max()])
    d_k = np.array(sorted(normal.d_k.unique()))
    panels[0].plot(d_k, np.sqrt(d_k), **ROOT)
    panels[0].set_yscale("log")
    for axes in panels[1:]:
        axes.set_ylim(0, 1.02)
    handles = [*style.marks(DIVIDED), style.mark(**ROOT)]
    handles += [
        style.mark(SOURCES.get(source, source), marker=marker, mec=style.GREY, **HEAD)
        for source, marker in markers.items()
    ]
    title = style.seeds_title([normal.seed.nunique()], "lines are means")
    style.legend_below(figure, handles, columns=5, **title)
    return figure
