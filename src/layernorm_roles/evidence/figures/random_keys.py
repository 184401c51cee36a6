"""How often Gaussian keys are unselectable after each norm (the paper's Figures 1c and 1d and their companions)."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.random_keys import EXPECTED_KEYS, z_scores
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import label

CONTOURS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75)
"""Shares of unselectable keys at which the exact expectation is drawn as a line."""

SHARE_COLOURS = ("#56B4E9", "#0072B2", "#002F5F")
"""Colours of the shares of unselectable keys, from the smallest to the largest."""

CONTEXTS = (1e3, 1e6)
"""Numbers of keys in the contexts of today's models, about; drawn as a band."""

RARE = {"facecolor": "0.95", "edgecolor": "0.8", "hatch": "//", "linewidth": 0}
"""Look of the cells that lead to expect too few keys for a z-score."""

HEADS = (2, 8, 16, 24, 32, 48, 64)
"""Dimensions of a key that have a tick: of heads that readers know, and some between."""


def share(cells: pd.DataFrame, norm: str) -> Figure:
    """Draw the share of matrices with an unselectable key over n and d after one norm.

    cells: table random_keys. A line below the panel names the other norms that leave no matrix with such a key.
    """
    part = style.runs_of(cells, "random_keys", "norm", [norm])
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.4))
    mesh = _heat(axes, part, "any_unselectable", cmap="rocket_r", vmin=0, vmax=1)
    axes.set_title("\n".join([label(norm), *_notes(part)]), loc="left", fontsize=7)
    figure.colorbar(mesh, ax=axes, label="share of matrices with\nan unselectable key", shrink=0.9)
    none = [name for name in legend_order(cells.norm) if not cells.any_unselectable[cells.norm == name].any()]
    if none and norm not in none:
        names = " and ".join(label(name) for name in none)
        figure.supxlabel(f"after {names}: none in {part.matrices.sum():,} matrices each", fontsize=7)
    return figure


def _notes(part: pd.DataFrame) -> list[str]:
    """What a heat map of one norm cannot show: how many matrices, that it is empty, which keys are open."""
    notes = [
        f"{part.matrices.max():,} matrices for each n and d"
        if part.any_unselectable.any()
        else f"none in {part.matrices.sum():,} matrices"
    ]
    if borderline := part.n_borderline.sum():
        notes.append(f"{borderline} of {(part.n * part.matrices).sum():,} keys borderline")
    return notes


def exact(cells: pd.DataFrame) -> Figure:
    """Draw, over n and d, the simulated share of unselectable keys with contours of the exact expectation.

    cells: table random_keys. A column of panels for each norm with an exact expectation: the shares above, and below
    them the z-score of each pair of n and d, simulated minus exact in standard errors.
    """
    scored = z_scores(cells)
    shown = legend_order(scored.norm[scored.expected_unselectable > 0])
    if not shown:
        return style.note(
            "The exact expectation is 0 for every norm, n and d: no key lies in the hull of so few others."
        )
    width = style.PAGE if len(shown) > 1 else style.COLUMN
    figure, grid = plt.subplots(2, len(shown), figsize=(width, 4.4), squeeze=False)
    for (above, below), norm in zip(grid.T, shown, strict=True):
        part = scored[scored.norm == norm]
        part = part.assign(
            simulated=part.mean_unselectable / part.n, exact=part.expected_unselectable / part.n
        )
        mesh = _heat(above, part, "simulated", cmap="rocket_r", vmin=0, vmax=1)
        _contours(above, part)
        above.set_title(f"{label(norm)}: simulated, lines exact", loc="left")
        scores = _z_panel(below, part)
    figure.colorbar(mesh, ax=grid[0], label="share of keys\nunselectable")
    figure.colorbar(scores, ax=grid[1], extend="both", label="z, simulated − exact\n(standard errors)")
    return figure


def _z_panel(axes: Axes, part: pd.DataFrame) -> ScalarMappable:
    """Draw z-scores of the comparable cells of one norm; the others are grey and summed up in the legend."""
    rare = part[~part.comparable]
    observed, expected = (
        (rare[c] * rare.matrices).sum() for c in ("mean_unselectable", "expected_unselectable")
    )
    axes.patch.set(**RARE)
    scores = _heat(axes, part.assign(z=part.z.where(part.comparable)), "z", cmap="vlag", vmin=-4, vmax=4)
    z = part.z[part.comparable].dropna()
    facts = f"mean {z.mean():.2f}, s.d. {z.std():.2f}, max |z| {z.abs().max():.1f}" if len(z) > 1 else "–"
    axes.set_title(f"z of {len(z)} cells: {facts.replace('-', '−')}", loc="left", fontsize=7.5)
    words = f"under {EXPECTED_KEYS:.0f} keys expected in a cell;\n"
    words += f"together {expected:.0f} expected, {observed:.0f} seen"
    look = {"frameon": True, "framealpha": 1, "edgecolor": "white", "borderaxespad": 0.2}
    axes.legend(handles=[Patch(label=words, **RARE)], loc="upper left", **look)
    return scores


def _grid(part: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column of cells as a table with a row for each d and a column for each n, both rising."""
    return part.pivot(index="d", columns="n", values=column).sort_index().sort_index(axis=1)


def _heat(axes: Axes, part: pd.DataFrame, column: str, **look) -> ScalarMappable:
    """Draw a column of cells as a heat map over n and d."""
    grid = _grid(part, column)
    look |= {"shading": "nearest", "rasterized": True}
    mesh = axes.pcolormesh(grid.columns, grid.index, grid.to_numpy(), **look)
    axes.set(xlabel="keys n", ylabel="dimension d")
    axes.yaxis.get_major_locator().set_params(integer=True)
    return mesh


def _contours(axes: Axes, part: pd.DataFrame) -> None:
    """Draw lines of equal exact share; nothing where the grid has a single n or d."""
    grid = _grid(part, "exact")
    # Between whole n and d the exact share is interpolated on a log scale, where it is nearly straight.
    height = np.log10(np.maximum(grid.to_numpy(), 1e-12))
    levels = [np.log10(level) for level in CONTOURS if height.min() < np.log10(level) < height.max()]
    if min(height.shape) < 2 or not levels:
        return
    tones = ["white" if level > np.log10(0.3) else "0.15" for level in levels]
    look = {"levels": levels, "colors": tones, "linewidths": 0.8, "linestyles": "solid"}
    lines = axes.contour(grid.columns, grid.index, height, **look)
    axes.clabel(lines, fmt=lambda value: f"{10**value:g}", fontsize=6)


# Finite precision

GROUPS = 10
"""Number of groups into which the numbers of keys are pooled: 100 matrices for each n alone scatter by 5 %."""

PRECISIONS = {"float64": {"marker": "o", "ms": 4}, "float32": {"marker": "s", "ms": 3.2, "mfc": "white"}}
"""Look of each precision; others have no marks."""

EPS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Colours of the values of eps, the smallest first."""


def finite_precision(cells: pd.DataFrame) -> Figure:
    """Draw what eps and float32 do to "no key is unselectable after LayerNorm", by n in the smallest d and by d.

    cells: table random_keys_precision. Neighbouring n are pooled into at most GROUPS groups. The settings stand side
    by side around their n or d, so that equal values hide none of them.
    """
    unselectable, keys = cells.any_unselectable * cells.matrices, cells.n * cells.matrices
    counts = cells.assign(unselectable=unselectable, keys=keys, group=_groups(cells.n))
    smallest, few, most = cells.d.min(), cells.n.min(), cells.n.max()
    small = counts[counts.d == smallest]
    of_matrices = ("unselectable", "matrices", "matrices with an\nunselectable key (%)")
    of_keys = ("n_borderline", "keys", "undecided keys (%)")
    panels = [
        (small, "group", *of_matrices, f"unselectable by n, d = {smallest}"),
        (counts, "d", *of_matrices, f"unselectable by d, n = {few} to {most}"),
        (small, "group", *of_keys, f"undecided by n, d = {smallest}"),
    ]
    settings = sorted(set(zip(cells.eps, cells.dtype, strict=True)))
    tones = dict(zip(sorted(set(cells.eps)), EPS, strict=False))
    looks = {
        (eps, dtype): {"label": f"{dtype}, ε = {style.power(eps)}", "color": tones[eps], "lw": 0.7}
        | PRECISIONS.get(dtype, {})
        for eps, dtype in settings
    }
    figure, grid = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    for axes, (table, x, part_of, whole, height, title) in zip(grid, panels, strict=True):
        places = np.sort(table[x].unique())
        gap = np.diff(places).min() if len(places) > 1 else 1.0
        for number, ((eps, dtype), look) in enumerate(looks.items()):
            part = table[(table.eps == eps) & (table.dtype == dtype)].groupby(x)[[part_of, whole]].sum()
            shift = 0.21 * gap * (number - (len(looks) - 1) / 2)
            axes.plot(part.index + shift, 100 * part[part_of] / part[whole], clip_on=False, **look)
        axes.set_title(title, fontsize=7.5)
        axes.set(xlabel="dimension d" if x == "d" else "keys n", ylabel=height)
        top = max(axes.get_ylim()[1], 1.0 if whole == "matrices" else 0.1)
        axes.set_ylim(-0.03 * top, top)
        if x == "d":
            axes.set_xticks(places)
    style.legend_below(figure, style.marks(looks), columns=4)
    return figure


def _groups(n: pd.Series) -> pd.Series:
    """The mean of the group of neighbouring values of n that each value belongs to; there are at most GROUPS."""
    values = np.sort(n.unique())
    parts = np.array_split(values, min(GROUPS, len(values)))
    return n.map({int(value): float(part.mean()) for part in parts for value in part})


# The law of widths


def law(table: pd.DataFrame) -> Figure:
    """Draw from how many Gaussian keys on each share of them is unselectable, by the dimension of a key.

    table: gaussian_law.
    """
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.62, 3.1))
    handles = law_panel(axes, table)
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 0.02))
    beyond = table.groupby("d").n.count()
    if (beyond == 0).any():
        largest = table.n.max()
        power = int(np.log10(largest))
        first = beyond[beyond == 0].index.min()
        words = f"d ≥ {first}: under {100 * table.share.min():g} %\n"
        words += f"of ${int(largest / 10**power)} \\cdot 10^{power}$ keys"
        axes.text(axes.get_xlim()[1] - 0.5, largest / 4, words, va="top", **LAW_NOTE)
    return figure


LAW_NOTE = {"ha": "right", "fontsize": 6.5, "color": "0.4"}


def law_panel(axes: Axes, table: pd.DataFrame) -> list[Line2D]:
    """Draw the law of widths on axes; return the legend's entries."""
    known = table.dropna(subset="n").sort_values("d")
    axes.axhspan(*CONTEXTS, color="0.94", lw=0, zorder=0)
    shares = sorted(table.share.unique())
    tones = dict(zip(shares, SHARE_COLOURS, strict=False))
    strokes = {False: {"ls": "-", "lw": 1.5}, True: {"ls": "--", "lw": 0.9}}
    for (share, causal), part in known.groupby(["share", "causal"]):
        axes.plot(part.d, part.n, color=tones[share], **strokes[causal])
    last = int(max(known.d.max(), max(HEADS)))
    axes.set(yscale="log", xlabel="dimension of a key, d", ylabel="keys n", xlim=(1, last + 1), xticks=HEADS)
    axes.text(last + 0.5, CONTEXTS[0] * 1.25, "contexts of today's models", **LAW_NOTE)
    words = {f"{100 * share:g} % unselectable": tones[share] for share in shares[::-1]}
    handles = [style.mark(name, color=tone, **strokes[False]) for name, tone in words.items()]
    return [*handles, style.mark("among the keys before, likewise", color=style.GREY, **strokes[True])]
