"""How wide must a head be? Gaussian keys by their number and dimension, and real heads cut to fewer dimensions."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.pretrained import cut_heads
from layernorm_roles.evidence.figures import style

SHARE_COLOURS = ("#56B4E9", "#0072B2", "#002F5F")
"""Colours of the shares of unselectable keys, from the smallest to the largest."""

CONTEXTS = (1e3, 1e6)
"""Numbers of keys in the contexts of today's models, about; drawn as a band."""

HEADS = (2, 16, 32, 64)
"""Dimensions of heads that readers know; they have a tick."""


def law(table: pd.DataFrame) -> Figure:
    """Draw from how many Gaussian keys on each share of them is unselectable, by the dimension of a key.

    table: gaussian_law.
    """
    known = table.dropna(subset="n")
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.62, 3.1))
    axes.axhspan(*CONTEXTS, color="0.94", lw=0, zorder=0)
    shares = sorted(table.share.unique())
    colours = dict(zip(shares, SHARE_COLOURS, strict=False))
    for (share, causal), part in known.groupby(["share", "causal"]):
        part = part.sort_values("d")
        axes.plot(part.d, part.n, color=colours[share], ls="--" if causal else "-", lw=0.9 if causal else 1.5)
    last = int(max(known.d.max(), HEADS[-1]))
    axes.set(yscale="log", xlabel="dimension of a key, d", ylabel="keys n", xlim=(1, last + 1))
    axes.set_xticks([d for d in (*HEADS, 8, 24, 48) if d <= last])
    note = {"ha": "right", "fontsize": 6.5, "color": "0.4"}
    axes.text(last + 0.5, CONTEXTS[0] * 1.25, "contexts of today's models", **note)
    beyond = table.groupby("d").n.count()
    if (beyond == 0).any():
        note["va"] = "top"
        power = int(np.log10(known.n.max()))
        digit = int(known.n.max() / 10**power)
        first = beyond[beyond == 0].index.min()
        words = f"d ≥ {first}: under {100 * min(shares):g} %\nof ${digit} \\cdot 10^{power}$ keys"
        axes.text(last + 0.5, known.n.max() / 4, words, **note)
    handles = [
        style.mark(f"{100 * share:g} % unselectable", color=colours[share], lw=1.5) for share in shares[::-1]
    ]
    handles.append(style.mark("among the keys before, likewise", color=style.GREY, ls="--", lw=0.9))
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure


def cut(keys: pd.DataFrame, model: str) -> Figure:
    """Draw the share of unselectable keys in the heads of each layer, by how many principal components are left.

    keys: table pretrained_keys. The dashed line is the exact expectation for as many Gaussian keys.
    """
    shares = cut_heads(keys[keys.model == model])
    if shares.empty:
        raise ValueError(f"pretrained_keys: no heads of {model} to draw")
    layers = sorted(shares.layer.unique())
    tones = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(layers)))
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.7))
    dimensions = sorted(shares.dimensions.unique())
    gaussian = shares.groupby("dimensions").gaussian_percent.mean()
    least = 0.5 * min([p for p in shares.percent if p > 0], default=0.01)
    shares = shares.assign(
        low=shares.low.where(shares.contexts >= style.FEWEST),
        high=shares.high.where(shares.contexts >= style.FEWEST),
    )
    for axes, bottom in zip(panels, (0.0, least), strict=True):
        axes.plot(gaussian.index, gaussian, color="black", ls="--", lw=1.1, zorder=3)
        for layer, tone in zip(layers, tones, strict=True):
            part, colour = shares[shares.layer == layer].set_index("dimensions"), to_hex(tone)
            some = part.percent > 0
            axes.plot(part.index, part.percent.where(some | (bottom == 0)), color=colour, lw=1.1)
            axes.plot(part.index[some], part.percent[some], ls="", marker="o", ms=3.2, color=colour)
            look = {"marker": "v", "ms": 3.2, "mfc": "white", "mec": colour}
            axes.plot(part.index[~some], [bottom] * (~some).sum(), ls="", clip_on=False, **look)
            axes.vlines(
                part.index, part.low.clip(lower=bottom), part.high.clip(upper=100), color=colour, lw=0.7
            )
        axes.set(xlabel="principal components left of a head's keys", xscale="log")
        style.ticks_at(axes, dimensions)
    panels[0].set(ylabel="unselectable keys (%)", ylim=(-2, 102))
    panels[1].set(yscale="log", ylim=(least, 130))
    n = shares.n_keys
    size = f"{n.min():,}" if n.min() == n.max() else f"{n.min():,} to {n.max():,}"
    handles = [
        style.mark(f"layer {layer}", color=to_hex(tone)) for layer, tone in zip(layers, tones, strict=True)
    ]
    handles.append(style.mark(f"{size} Gaussian keys", color="black", ls="--", lw=1.1))
    handles.append(style.mark("none", ls="", marker="v", ms=3.2, mfc="white", mec=style.GREY))
    style.legend_below(figure, handles, columns=8)
    return figure
