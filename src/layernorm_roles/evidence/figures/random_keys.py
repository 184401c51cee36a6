"""How often Gaussian keys are unselectable after each norm (the paper's Figures 1c and 1d and their companions)."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.random_keys import z_scores
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import label, legend_order

CONTOURS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75)
"""Shares of unselectable keys at which the exact expectation is drawn as a line."""

SHARE_COLOURS = ("#56B4E9", style.BLUE, "#002F5F")
"""Colours of lines for the shares of keys that are unselectable, from the smallest share to the largest."""

CONTEXTS = (1e3, 1e6)
"""Numbers of keys, about, between which the contexts of today's models lie, where the figure has a band."""

HEADS = (2, 8, 16, 24, 32, 48, 64)
"""Dimensions of a key that have a tick on the axis: those of well-known models' heads, and some between."""


def share(cells: pd.DataFrame, norm: str) -> Figure:
    """Draw the share of matrices with an unselectable key after one norm, by number n and dimension d of keys.

    cells: table random_keys. A line below the panel names the other norms that leave no matrix with such a key.
    """
    part = cells[cells.norm == norm]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.4))
    mesh = _heat(axes, part, "any_unselectable")
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


def exact(cells: pd.DataFrame) -> Figure:
    """Draw the simulated share of unselectable keys, with contours of the exact one, by number n and dimension d.

    cells: table random_keys; a panel for each norm with an exact expectation. Its title has mean and standard deviation
    of `analysis.random_keys.z_scores`, simulated minus exact in standard errors, where enough keys are expected.
    """
    scored = z_scores(cells)
    shown = legend_order(scored.norm[scored.expected_unselectable > 0])
    if not shown:
        return style.note(
            "The exact expectation is 0 for every norm, n and d: no key lies in the hull of so few others."
        )
    width = style.PAGE if len(shown) > 1 else style.COLUMN
    figure, (panels,) = plt.subplots(1, len(shown), figsize=(width, 2.5), squeeze=False)
    for axes, norm in zip(panels, shown, strict=True):
        part = scored[scored.norm == norm]
        mesh = _heat(axes, part.assign(simulated=part.mean_unselectable / part.n), "simulated")
        _contours(axes, part.assign(exact=part.expected_unselectable / part.n))
        z, title = part.z[part.comparable].dropna(), f"{label(norm)}: simulated, lines exact"
        if len(z) > 1:
            title += f"\nz of {len(z)} cells: mean {z.mean():.2f}, s.d. {z.std():.2f}".replace("-", "−")
        axes.set_title(title, loc="left")
    figure.colorbar(mesh, ax=panels, label="share of keys\nunselectable")
    return figure


def _heat(axes: Axes, part: pd.DataFrame, column: str) -> ScalarMappable:
    """Draw a column of table random_keys, which has shares, as a heat map over n and d."""
    grid = part.pivot(index="d", columns="n", values=column)
    look = dict(cmap="rocket_r", vmin=0, vmax=1, shading="nearest", rasterized=True)
    mesh = axes.pcolormesh(grid.columns, grid.index, grid.to_numpy(), **look)
    axes.set(xlabel="keys n", ylabel="dimension d")
    axes.yaxis.get_major_locator().set_params(integer=True)
    return mesh


def _contours(axes: Axes, part: pd.DataFrame) -> None:
    """Draw lines of equal value of the column `exact` over n and d; none where there is a single n or d."""
    grid = part.pivot(index="d", columns="n", values="exact")
    # Between whole n and d the exact share is interpolated on a log scale, where it is nearly straight.
    height = np.log10(np.maximum(grid.to_numpy(), 1e-12))
    levels = [np.log10(level) for level in CONTOURS if height.min() < np.log10(level) < height.max()]
    if min(height.shape) < 2 or not levels:
        return
    tones = ["white" if level > np.log10(0.3) else "0.15" for level in levels]
    look = dict(levels=levels, colors=tones, linewidths=0.8, linestyles="solid")
    lines = axes.contour(grid.columns, grid.index, height, **look)
    axes.clabel(lines, fmt=lambda value: f"{10**value:g}", fontsize=6)


# The law of widths


def law(table: pd.DataFrame) -> Figure:
    """Draw from how many Gaussian keys on a share of them is unselectable, by their dimension, from gaussian_law."""
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
