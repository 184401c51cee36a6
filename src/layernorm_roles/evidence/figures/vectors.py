"""Keys and queries of the majority task in three dimensions (the paper's Figures 1a and 1b)."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from mpl_toolkits.mplot3d.axes3d import Axes3D

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.rows import runs_of

VIEW = {"elev": 16, "azim": -14}
"""Point of view of every panel, in degrees."""

LIMIT = 1.9
"""Half the side of the box around the origin; keys after LayerNorm have length sqrt(3) = 1.73."""

SHORTEST = 1e-6
"""Length with which shorter vectors are drawn on the logarithmic axis."""

KEYS = {"marker": "o", "s": 13, "alpha": 0.75, "linewidth": 0}
QUERIES = {"marker": "^", "s": 11, "color": "black", "linewidth": 0}
SHORTENED = {"marker": "^", "s": 11, "facecolor": "none", "edgecolor": "black", "linewidth": 0.5}


class Drawn(NamedTuple):
    """What a panel could not show as it is."""

    keys_outside: int
    """Number of keys outside the box; they are not drawn."""
    queries_outside: int
    """Number of queries outside the box; they are drawn on their line, at the box, hollow."""


def keys_and_queries(vectors: pd.DataFrame, experiment: str, variants: Sequence[str]) -> Figure:
    """Draw the keys and queries of all trained runs of an experiment, a panel for every variant.

    vectors: table majority_vectors. All panels have equal axes and one point of view, with the plane orthogonal to
    the ones vector and the ones vector. A strip below each panel shows the lengths of its keys and queries, because
    queries near the origin do not show theirs.
    """
    runs = runs_of(vectors, "majority_vectors", "experiment", experiment, variants)
    chosen = runs[runs.checkpoint == "final"]
    if chosen.empty:
        return _nothing()
    present = legend_order(chosen.variant)
    columns = min(len(present), 2)
    rows = -(-len(present) // columns)
    figure = plt.figure(figsize=(style.COLUMN * columns, 3.5 * rows))
    grid = figure.add_gridspec(2 * rows, columns, height_ratios=[1, 0.13] * rows)
    strips, shortened = [], False
    for number, variant in enumerate(present):
        row, column = divmod(number, columns)
        axes = figure.add_subplot(grid[2 * row, column], projection="3d")
        part = chosen[chosen.variant == variant]
        drawn = _panel(axes, part, colours.palette(present)[variant])
        axes.set_title(_title(variant, part, drawn), y=0.98)
        shortened |= drawn.queries_outside > 0
        strip = figure.add_subplot(grid[2 * row + 1, column], sharex=strips[0] if strips else None)
        _lengths(strip, part, colours.palette(present)[variant])
        strips.append(strip)
    handles = [
        style.mark("keys", ls="", marker="o", ms=4.5, color=style.GREY, alpha=0.8, mec="none"),
        style.mark("queries", ls="", marker="^", ms=4.5, color="black"),
        style.mark("ones vector", ls="--", lw=0.9, color="#333333"),
        style.mark("plane orthogonal to it", ls="", marker="s", ms=7, color="#BBBBBB", alpha=0.6, mec="none"),
    ]
    if shortened:
        handles.append(style.mark("queries, shortened", ls="", marker="^", ms=4.5, color="black", mfc="none"))
    style.legend_below(figure, handles, columns=2 if columns == 1 else 5)
    return figure


def _nothing() -> Figure:
    """The figure of runs that have all diverged: a sentence."""
    figure, axes = plt.subplots(figsize=(style.COLUMN, 0.6))
    axes.set_axis_off()
    axes.text(
        0.5, 0.5, "Every run has diverged: there is no trained model to draw.", ha="center", va="center"
    )
    return figure


def _title(variant: str, vectors: pd.DataFrame, drawn: Drawn) -> str:
    """Name the variant, its number of runs, and the number of keys that are not drawn."""
    runs = vectors.seed.nunique()
    outside = f"\n{drawn.keys_outside} keys outside the box" if drawn.keys_outside else ""
    return f"{colours.label(variant)} ({runs} run{'s' if runs > 1 else ''}){outside}"


def _lengths(axes: Axes, vectors: pd.DataFrame, colour: str) -> None:
    """Draw the length of every key and query of one variant on a logarithmic axis, keys above queries."""
    for y, (kind, look) in enumerate({"query": QUERIES, "key": KEYS | {"color": colour}}.items()):
        chosen = np.stack(vectors.vector[vectors.kind == kind].to_numpy())
        lengths = np.maximum(np.linalg.norm(chosen, axis=1), SHORTEST)
        axes.scatter(lengths, np.full(len(lengths), y), clip_on=False, **look | {"alpha": 0.35, "s": 9})
    axes.set(xscale="log", xlabel="length", ylim=(-0.6, 1.6), yticks=[0, 1], yticklabels=["queries", "keys"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))


def _panel(axes: Axes3D, vectors: pd.DataFrame, colour: str) -> Drawn:
    """Draw the keys and queries of one variant; return what does not fit into the box."""
    plane_and_ones(axes, radius=1.15 * np.sqrt(3), reach=0.95 * LIMIT)
    kinds = {kind: np.stack(part.vector.to_numpy()) for kind, part in vectors.groupby("kind")}
    keys, queries = kinds["key"], kinds["query"]
    near = np.abs(keys).max(axis=1) <= LIMIT
    axes.scatter(*keys[near].T, color=colour, depthshade=False, **KEYS)
    excess = np.abs(queries).max(axis=1) / LIMIT
    inside = excess <= 1
    axes.scatter(*queries[inside].T, depthshade=False, **QUERIES)
    if not inside.all():
        axes.scatter(*(queries / excess[:, None])[~inside].T, depthshade=False, **SHORTENED)
    box(axes, LIMIT, ticks=(-1, 0, 1))
    name_axes(axes, labelpad=-8)
    axes.tick_params(pad=-3, labelsize=6)
    axes.set_box_aspect((1, 1, 1), zoom=0.95)
    axes.view_init(**VIEW)
    return Drawn(int((~near).sum()), int((~inside).sum()))


def plane_and_ones(axes: Axes3D, radius: float, reach: float) -> None:
    """Draw a disc of the plane orthogonal to the ones vector, and the ones vector as a line from -reach to reach."""
    angle = np.linspace(0, 2 * np.pi, 90)
    across = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    disc = radius * (np.cos(angle)[:, None] * across[0] + np.sin(angle)[:, None] * across[1])
    axes.plot_trisurf(*disc.T, color="#BBBBBB", alpha=0.25, linewidth=0, shade=False)
    ones = np.array([[-1], [1]]) * np.full((1, 3), reach)
    axes.plot(*ones.T, ls="--", lw=0.9, color="#333333")


def box(axes: Axes3D, limit: float, ticks: Sequence[int]) -> None:
    """Let all three axes reach from -limit to limit, with the given ticks."""
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit))
    axes.set(xticks=ticks, yticks=ticks, zticks=ticks)


def name_axes(axes: Axes3D, **look) -> None:
    """Label the three axes with the coordinates of a vector x; `look` are options of the labels."""
    axes.set_xlabel("$x_1$", **look)
    axes.set_ylabel("$x_2$", **look)
    axes.set_zlabel("$x_3$", **look)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_rotate_label(False)
