"""Figures 1c, 1d and their companions, from random_keys and random_keys_precision."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from layernorm_roles.evidence import style

EXPECTED_KEYS = 10.0
"""Unselectable keys that a cell must lead to expect before its mean is near enough to normal for a z-score."""

_LEVELS = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75)


def draw(name: str, norms: pd.DataFrame, precision: pd.DataFrame) -> Figure:
    """The figure called `name`: 1c, 1d, random_keys_norms, random_keys_exact, random_keys_precision."""
    match name:
        case "1c":
            return share(norms, ["none"])
        case "1d":
            return share(norms, ["layernorm"])
        case "random_keys_norms":
            return share(norms, style.order(norms.norm))
        case "random_keys_exact":
            return exact(norms)
        case "random_keys_precision":
            return finite_precision(precision)
    raise ValueError(f"unknown figure {name!r}")


def z_scores(norms: pd.DataFrame) -> pd.DataFrame:
    """Columns z and comparable: the mean number of unselectable keys against the exact expectation.

    z = (mean - expected) / (std / sqrt(matrices)); NaN where std is 0 or no formula is known. `comparable` are
    cells that expect at least EXPECTED_KEYS unselectable keys in all matrices together: below, a count of rare
    events is skewed and its own standard deviation a poor yardstick.
    """
    error = norms.std_unselectable / np.sqrt(norms.matrices)
    z = (norms.mean_unselectable - norms.expected_unselectable) / error.where(error > 0)
    return norms.assign(z=z, comparable=norms.expected_unselectable * norms.matrices >= EXPECTED_KEYS)


def share(norms: pd.DataFrame, shown: list[str]) -> Figure:
    """Heat map over n and d of the share of matrices with at least one unselectable key, a panel for each norm."""
    shown = [norm for norm in shown if (norms.norm == norm).any()]
    if not shown:
        return _missing("this run has no such norm")
    columns = min(2, len(shown))
    rows = -(-len(shown) // columns)
    width = style.COLUMN if columns == 1 else style.PAGE
    figure, axes = plt.subplots(rows, columns, figsize=(width, 1.9 * rows + 0.35), squeeze=False)
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for ax, norm in zip(axes.flat, shown, strict=False):
        part = norms[norms.norm == norm]
        mesh = _heat(ax, part, "any_unselectable", cmap="rocket_r", vmin=0, vmax=1)
        borderline = part.n_borderline.sum()
        note = f"; {borderline} of {(part.n * part.matrices).sum():,} keys borderline" if borderline else ""
        ax.set_title(f"{style.label(norm)}{note}", loc="left")
    figure.colorbar(
        mesh, ax=axes, label="share of matrices with\nan unselectable key", shrink=0.9 if rows == 1 else 0.5
    )
    return figure


def exact(norms: pd.DataFrame) -> Figure:
    """Above: simulated share of unselectable keys, the exact one as contour lines. Below: z-scores of the cells."""
    scored = z_scores(norms)
    shown = [n for n in style.order(norms.norm) if (scored[scored.norm == n].expected_unselectable > 0).any()]
    if not shown:
        return _missing("this run has no norm with a positive exact expectation")
    figure, axes = plt.subplots(
        2, len(shown), figsize=(style.PAGE if len(shown) > 1 else style.COLUMN, 4.4), squeeze=False
    )
    for (above, below), norm in zip(axes.T, shown, strict=True):
        part = scored[scored.norm == norm].assign(
            simulated=lambda f: f.mean_unselectable / f.n, exact=lambda f: f.expected_unselectable / f.n
        )
        mesh = _heat(above, part, "simulated", cmap="rocket_r", vmin=0, vmax=1)
        _contours(above, part)
        above.set_title(f"{style.label(norm)}: simulated, lines exact", loc="left")

        rare = part[~part.comparable]
        observed, expected = (
            (rare[c] * rare.matrices).sum() for c in ("mean_unselectable", "expected_unselectable")
        )
        part = part.assign(z=part.z.where(part.comparable))
        below.set_facecolor("0.88")
        scores = _heat(below, part, "z", cmap="vlag", vmin=-4, vmax=4)
        z = part.z.dropna()
        facts = f"mean {z.mean():.2f}, s.d. {z.std():.2f}, max {z.abs().max():.1f}" if len(z) > 1 else "-"
        below.set_title(f"z of {len(z)} cells: {facts}", loc="left")
        below.legend(
            handles=[
                Patch(
                    color="0.88",
                    label=f"under {EXPECTED_KEYS:.0f} keys expected;\n"
                    f"together {expected:.0f}, observed {observed:.0f}",
                )
            ],
            loc="upper left",
            borderaxespad=0.2,
        )
    figure.colorbar(mesh, ax=axes[0], label="share of keys\nunselectable")
    figure.colorbar(scores, ax=axes[1], label="z, simulated − exact")
    return figure


def finite_precision(precision: pd.DataFrame) -> Figure:
    """What eps and float32 do to "no key is unselectable after LayerNorm": by n at the smallest d, and by d."""
    setting = [f"{dtype}, ε = {eps:g}" for dtype, eps in zip(precision.dtype, precision.eps, strict=True)]
    precision = precision.assign(
        setting=setting,
        unselectable=precision.any_unselectable * precision.matrices,
        borderline=precision.n_borderline / (precision.n * precision.matrices),
    )
    smallest = precision.d.min()
    by_d = precision.groupby(["setting", "d", "dtype", "eps"], as_index=False, sort=False).agg(
        unselectable=("unselectable", "sum"), matrices=("matrices", "sum")
    )
    by_d["any_unselectable"] = by_d.unselectable / by_d.matrices
    smallest_d = precision[precision.d == smallest]
    figure, axes = plt.subplots(1, 3, figsize=(style.PAGE, 2.2))
    colours = dict(zip(sorted(set(precision.eps)), sns.color_palette("colorblind"), strict=False))
    look = {
        "hue": "eps",
        "palette": colours,
        "style": "dtype",
        "style_order": sorted(set(precision.dtype), reverse=True),
        "errorbar": None,
    }
    panels: list[tuple[Axes, pd.DataFrame, str, str, str, str]] = [
        (
            axes[0],
            smallest_d,
            "n",
            "any_unselectable",
            "keys n",
            "matrices with an\nunselectable key (share)",
        ),
        (axes[1], by_d, "d", "any_unselectable", "dimension d", "the same, all n together"),
        (axes[2], smallest_d, "n", "borderline", "keys n", "borderline keys (share)"),
    ]
    for ax, data, x, y, x_label, y_label in panels:
        last = ax is axes[1]
        sns.lineplot(
            data, x=x, y=y, ax=ax, legend=last, **look, **({"markers": True, "markersize": 5} if last else {})
        )
        ax.set(xlabel=x_label, ylabel=y_label)
        ax.set_ylim(bottom=min(0, -0.03 * ax.get_ylim()[1]))
        ax.set_title(f"d = {smallest}" if x == "n" else "", loc="left")
    handles, labels = axes[1].get_legend_handles_labels()
    names = {"eps": "ε", "dtype": "precision", "0.0": "0"}
    axes[1].legend(handles, [names.get(text, text) for text in labels], loc="upper right")
    return figure


def _grid(part: pd.DataFrame, column: str) -> pd.DataFrame:
    return part.pivot(index="d", columns="n", values=column).sort_index()


def _heat(ax: Axes, part: pd.DataFrame, column: str, **look) -> Callable:
    grid = _grid(part, column)
    mesh = ax.pcolormesh(
        grid.columns, grid.index, grid.to_numpy(), shading="nearest", rasterized=True, **look
    )
    ax.set(xlabel="keys n", ylabel="dimension d")
    ax.yaxis.get_major_locator().set_params(integer=True)
    return mesh


def _contours(ax: Axes, part: pd.DataFrame) -> None:
    grid = _grid(part, "exact")
    # Between whole n and d the exact share is interpolated on a log scale, where it is nearly straight.
    height = np.log10(np.maximum(grid.to_numpy(), 1e-12))
    if min(height.shape) < 2:
        return
    levels = [np.log10(level) for level in _LEVELS if height.min() < np.log10(level) < height.max()]
    if not levels:
        return
    colours = ["white" if level > np.log10(0.3) else "0.15" for level in levels]
    lines = ax.contour(
        grid.columns, grid.index, height, levels=levels, colors=colours, linewidths=0.8, linestyles="solid"
    )
    ax.clabel(lines, fmt=lambda value: f"{10**value:g}", fontsize=6)


def _missing(why: str) -> Figure:
    figure, ax = plt.subplots(figsize=(style.COLUMN, 1.5))
    ax.text(0.5, 0.5, why, ha="center", va="center")
    ax.set_axis_off()
    return figure
