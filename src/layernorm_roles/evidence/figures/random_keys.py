"""How often Gaussian keys are unselectable after each norm (the paper's Figures 1c and 1d and their companions)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.random_keys import EXPECTED_KEYS, z_scores
from layernorm_roles.evidence.figures import colours, style

CONTOURS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75)
"""Shares of unselectable keys at which the exact expectation is drawn as a line."""

SHARE_COLOURS = ("#56B4E9", "#0072B2", "#002F5F")
"""Colours of the shares of unselectable keys, from the smallest to the largest."""

CONTEXTS = (1e3, 1e6)
"""Numbers of keys in the contexts of today's models, about; drawn as a band."""

RARE = {"facecolor": "0.95", "edgecolor": "0.8", "hatch": "//", "linewidth": 0}
"""Look of the cells that lead to expect too few keys for a z-score."""

HEADS = (2, 16, 32, 64)
"""Dimensions of heads that readers know; they have a tick."""


def share(cells: pd.DataFrame, norms: Sequence[str] | None = None) -> Figure:
    """Draw the share of matrices with an unselectable key over n and d, a panel for each norm, all if None."""
    shown = legend_order(set(cells.norm) & set(cells.norm if norms is None else norms))
    if not shown:
        raise ValueError(f"random_keys: none of the norms {norms} to draw")
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    width = style.COLUMN if columns == 1 else style.PAGE
    figure, grid = plt.subplots(rows, columns, figsize=(width, 1.9 * rows + 0.35), squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_axis_off()
    for axes, norm in zip(grid.flat, shown, strict=False):
        part = cells[cells.norm == norm]
        mesh = _heat(axes, part, "any_unselectable", cmap="rocket_r", vmin=0, vmax=1)
        borderline = part.n_borderline.sum()
        note = f"\n{borderline} of {(part.n * part.matrices).sum():,} keys borderline" if borderline else ""
        none = "" if part.any_unselectable.any() else f": none in {part.matrices.sum():,} matrices"
        axes.set_title(f"{colours.label(norm)}{none}{note}", loc="left", fontsize=7 if none or note else 8)
    label = "share of matrices with\nan unselectable key"
    figure.colorbar(mesh, ax=grid, label=label, shrink=0.9 if rows == 1 else 0.5)
    return figure


def exact(cells: pd.DataFrame) -> Figure:
    """Draw simulated shares under lines of the exact ones, and below them the z-score of every cell."""
    scored = z_scores(cells)
    positive = scored[scored.expected_unselectable > 0]
    shown = legend_order(positive.norm)
    if not shown:
        raise ValueError("random_keys: no norm with a positive exact expectation to draw")
    width = style.PAGE if len(shown) > 1 else style.COLUMN
    figure, grid = plt.subplots(2, len(shown), figsize=(width, 4.4), squeeze=False)
    for (above, below), norm in zip(grid.T, shown, strict=True):
        part = scored[scored.norm == norm]
        part = part.assign(
            simulated=part.mean_unselectable / part.n,
            exact=part.expected_unselectable / part.n,
        )
        mesh = _heat(above, part, "simulated", cmap="rocket_r", vmin=0, vmax=1)
        _contours(above, part)
        above.set_title(f"{colours.label(norm)}: simulated, lines exact", loc="left")
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
    part = part.assign(z=part.z.where(part.comparable))
    axes.patch.set(**RARE)
    scores = _heat(axes, part, "z", cmap="vlag", vmin=-4, vmax=4)
    z = part.z.dropna()
    facts = f"mean {z.mean():.2f}, s.d. {z.std():.2f}, max |z| {z.abs().max():.1f}" if len(z) > 1 else "–"
    axes.set_title(f"z of {len(z)} cells: {facts.replace('-', '−')}", loc="left", fontsize=7.5)
    label = f"under {EXPECTED_KEYS:.0f} keys expected in a cell;\n"
    label += f"together {expected:.0f} expected, {observed:.0f} seen"
    look = {"frameon": True, "framealpha": 1, "edgecolor": "white", "borderaxespad": 0.2}
    axes.legend(handles=[Patch(label=label, **RARE)], loc="upper left", **look)
    return scores


def finite_precision(cells: pd.DataFrame) -> Figure:
    """Draw what eps and float32 do to "no key is unselectable after LayerNorm", by n in the smallest d and by d.

    cells: table random_keys_precision. Neighbouring n are pooled into at most GROUPS groups. The four settings stand
    side by side around their n or d, so that equal values hide none of them.
    """
    counts = cells.assign(
        unselectable=cells.any_unselectable * cells.matrices,
        keys=cells.n * cells.matrices,
        group=_groups(cells.n),
    )
    smallest, few, most = cells.d.min(), cells.n.min(), cells.n.max()
    in_smallest = counts[counts.d == smallest]
    matrices, keys = "matrices with an\nunselectable key (%)", "undecided keys (%)"
    panels = [
        (in_smallest, "group", ("unselectable", "matrices"), f"unselectable by n, d = {smallest}", matrices),
        (counts, "d", ("unselectable", "matrices"), f"unselectable by d, n = {few} to {most}", matrices),
        (in_smallest, "group", ("n_borderline", "keys"), f"undecided by n, d = {smallest}", keys),
    ]
    figure, grid = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    settings = list(counts.groupby(["eps", "dtype"], sort=True).groups)
    colour = dict(zip(sorted(set(cells.eps)), ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), strict=False))
    for axes, (table, x, (part_of, whole), title, label) in zip(grid, panels, strict=True):
        places = np.sort(table[x].unique())
        gap = np.diff(places).min() if len(places) > 1 else 1.0
        for number, (eps, dtype) in enumerate(settings):
            part = table[(table.eps == eps) & (table.dtype == dtype)].groupby(x)[[part_of, whole]].sum()
            shift = 0.21 * gap * (number - (len(settings) - 1) / 2)
            look = _PRECISIONS.get(dtype, {}) | {"color": colour[eps], "mec": colour[eps]}
            axes.plot(part.index + shift, 100 * part[part_of] / part[whole], lw=0.7, clip_on=False, **look)
        axes.set_title(title, fontsize=7.5)
        axes.set(xlabel="dimension d" if x == "d" else "keys n", ylabel=label)
        top = max(axes.get_ylim()[1], 1.0 if whole == "matrices" else 0.1)
        axes.set_ylim(-0.03 * top, top)
        if x == "d":
            axes.set_xticks(places)
    handles = [
        style.mark(
            f"{dtype}, ε = {style.power(eps)}",
            lw=0.7,
            color=colour[eps],
            mec=colour[eps],
            **_PRECISIONS.get(dtype, {}),
        )
        for eps, dtype in settings
    ]
    style.legend_below(figure, handles, columns=4)
    return figure


GROUPS = 10
"""Number of groups into which the numbers of keys are pooled: 100 matrices for each n alone scatter by 5 %."""

_PRECISIONS = {
    "float64": {"marker": "o", "ms": 4},
    "float32": {"marker": "s", "ms": 3.2, "mfc": "white"},
}


def _groups(n: pd.Series) -> pd.Series:
    """The mean of the group of neighbouring values of n that each value belongs to; there are at most GROUPS."""
    values = np.sort(n.unique())
    parts = np.array_split(values, min(GROUPS, len(values)))
    return n.map({int(value): float(part.mean()) for part in parts for value in part})


def _grid(part: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column of cells as a table with a row for each d and a column for each n, both rising."""
    return part.pivot(index="d", columns="n", values=column).sort_index().sort_index(axis=1)


def _heat(axes: Axes, part: pd.DataFrame, column: str, **look) -> ScalarMappable:
    """Draw a column of cells as a heat map over n and d."""
    grid = _grid(part, column)
    mesh = axes.pcolormesh(
        grid.columns, grid.index, grid.to_numpy(), shading="nearest", rasterized=True, **look
    )
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


def law(table: pd.DataFrame) -> Figure:
    """Draw from how many Gaussian keys on each share of them is unselectable, by the dimension of a key.

    table: gaussian_law.
    """
    known = table.dropna(subset="n")
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.62, 3.1))
    axes.axhspan(*CONTEXTS, color="0.94", lw=0, zorder=0)
    shares = sorted(table.share.unique())
    tones = dict(zip(shares, SHARE_COLOURS, strict=False))
    for (share, causal), part in known.groupby(["share", "causal"]):
        part = part.sort_values("d")
        axes.plot(part.d, part.n, color=tones[share], ls="--" if causal else "-", lw=0.9 if causal else 1.5)
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
        style.mark(f"{100 * share:g} % unselectable", color=tones[share], lw=1.5) for share in shares[::-1]
    ]
    handles.append(style.mark("among the keys before, likewise", color=style.GREY, ls="--", lw=0.9))
    axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 0.02))
    return figure
