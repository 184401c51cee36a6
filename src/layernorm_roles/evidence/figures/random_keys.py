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
"""Numbers of keys, about, between which the contexts of today's models lie, where the figure has a band."""

HEADS = (2, 8, 16, 24, 32, 48, 64)
"""Dimensions of a key that have a tick on the axis: those of well-known models' heads, and some between."""


def share(cells: pd.DataFrame, norm: str) -> Figure:
    """Draw a heat map of the share of matrices with an unselectable key, by number n and dimension d of the keys.

    `cells` is the table random_keys; keys after `norm` are drawn. A note names other norms without such a matrix.
    """
    part = cells[cells.norm == norm]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.4))
    grid = part.pivot(index="d", columns="n", values="any_unselectable")
    look = dict(cmap="rocket_r", vmin=0, vmax=1, shading="nearest", rasterized=True)
    mesh = axes.pcolormesh(grid.columns, grid.index, grid.to_numpy(), **look)
    axes.set(xlabel="keys n", ylabel="dimension d")
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_title("\n".join([label(norm), *_notes(part)]), loc="left", fontsize=7)
    figure.colorbar(mesh, ax=axes, label="share of matrices with\nan unselectable key", shrink=0.9)
    none = [name for name in legend_order(cells.norm) if not cells.any_unselectable[cells.norm == name].any()]
    if none and norm not in none:
        names = " and ".join(label(name) for name in none)
        figure.supxlabel(f"after {names}: none in {part.matrices.sum():,} matrices each", fontsize=7)
    return figure


def _notes(part: pd.DataFrame) -> list[str]:
    """Sentences on what a heat map of one norm does not show: how many matrices and borderline keys there were."""
    notes = [f"none in {part.matrices.sum():,} matrices"]
    if part.any_unselectable.any():
        notes = [f"{part.matrices.max():,} matrices for each n and d"]
    if borderline := part.n_borderline.sum():
        notes.append(f"{borderline} of {(part.n * part.matrices).sum():,} keys borderline")
    return notes


# The law of widths


def law(table: pd.DataFrame) -> Figure:
    """Draw, against the dimension of keys, how many Gaussian keys it takes until a given share is unselectable.

    `table` is the table gaussian_law. Each share has a curve, and a dashed one if a key's rivals are only earlier keys.
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
    axes.text(last + 0.5, CONTEXTS[0] * 1.25, "contexts of today's models", **note)
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
    entries.append(dict(label="among the keys before, likewise", color=style.GREY, **strokes[True]))
    style.legend_below(figure, entries, columns=4)
    return figure
