"""How often Gaussian keys are unselectable: after each norm (the paper's Figures 1c and 1d), and by their dimension."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import label, legend_order

SHARE_COLOURS = ("#56B4E9", style.BLUE, "#002F5F")
"""Colours of lines for the shares of keys that are unselectable, from the smallest share to the largest."""

CONTEXTS = (1e3, 1e6)
"""Between these numbers of keys lie the contexts of present models, where the figure has a band."""

HEADS = (2, 8, 16, 24, 32, 48, 64)
"""Dimensions of a key that have a tick on the axis: those of well-known models' heads, and some between."""


def share(cells: pd.DataFrame) -> Figure:
    """Draw heat maps of the share of matrices with an unselectable key, by number n and dimension d of the keys.

    `cells` is the table random_keys. A norm after which no matrix has such a key is named below instead of drawn.
    """
    some = cells.groupby("norm").any_unselectable.any()
    norms = legend_order(cells.norm)
    drawn = sorted((name for name in norms if some[name] or name == "none"), key=lambda name: name != "none")
    size = (style.COLUMN if len(drawn) == 1 else style.PAGE, 2.5)
    figure, panels = plt.subplots(1, len(drawn), figsize=size, squeeze=False, sharey=True)
    for axes, norm in zip(panels[0], drawn, strict=True):
        part = cells[cells.norm == norm]
        grid = part.pivot(index="d", columns="n", values="any_unselectable")
        look = dict(cmap="rocket_r", vmin=0, vmax=1, shading="nearest", rasterized=True)
        mesh = axes.pcolormesh(grid.columns, grid.index, grid.to_numpy(), **look)
        axes.set(xlabel="number of keys n")
        axes.yaxis.get_major_locator().set_params(integer=True)
        notes = [label(norm), f"{part.matrices.max():,} matrices for each n and d"]
        if borderline := part.n_borderline.sum():
            notes.append(f"{borderline} of {(part.n * part.matrices).sum():,} keys borderline")
        axes.set_title("\n".join(notes), loc="left", fontsize=7)
    panels[0, 0].set_ylabel("dimension d")
    figure.colorbar(mesh, ax=[*panels[0]], label="share of matrices with\nan unselectable key", shrink=0.9)
    if none := [name for name in norms if name not in drawn]:
        matrices = cells.matrices[cells.norm == none[0]].sum()
        names = " and ".join(filter(None, (", ".join(map(label, none[:-1])), label(none[-1]))))
        figure.supxlabel(f"after {names}: none in {matrices:,} matrices each", fontsize=7)
    return figure


# The law of widths


def law(table: pd.DataFrame) -> Figure:
    """Draw, by dimension, how many Gaussian keys it takes until a share is unselectable, from the table gaussian_law.

    Each share has a curve, and a dashed one if a key's rivals are only earlier keys.
    """
    figure, axes = plt.subplots(figsize=(style.PAGE, 2.7))
    known = table.dropna(subset="n").sort_values("d")
    axes.axhspan(*CONTEXTS, color="0.94", lw=0, zorder=0)
    shares = sorted(table.share.unique())
    tones = dict(zip(shares, SHARE_COLOURS, strict=False))
    strokes = {False: dict(ls="-", lw=1.5), True: dict(ls="--", lw=0.9)}
    for (share, causal), part in known.groupby(["share", "causal"]):
        axes.plot(part.d, part.n, color=tones[share], **strokes[causal])
    last = int(max(known.d.max(), max(HEADS)))
    axes.set(yscale="log", xlabel="dimension of a key, d", ylabel="keys n", xlim=(1, last + 1), xticks=HEADS)
    note = dict(ha="right", fontsize=7, color="0.4")
    axes.text(last + 0.5, CONTEXTS[0] * 1.25, "contexts of present models", **note)
    beyond = table.groupby("d").n.count()
    if (beyond == 0).any():
        power = int(np.log10(table.n.max()))
        words = f"d ≥ {beyond[beyond == 0].index.min()}: under {100 * table.share.min():g} %\n"
        words += f"of ${int(table.n.max() / 10**power)} \\cdot 10^{power}$ keys"
        axes.text(last + 0.5, table.n.max() / 4, words, va="top", **note)
    entries = [
        dict(label=f"{100 * share:g} % unselectable", color=tones[share], **strokes[False])
        for share in shares[::-1]
    ]
    entries.append(dict(label="among earlier keys only", color=style.GREY, **strokes[True]))
    style.legend_below(figure, entries, columns=4)
    return figure
