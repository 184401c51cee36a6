"""Keys and queries of the majority task in three dimensions (the paper's Figures 1a and 1b)."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator
from mpl_toolkits.mplot3d.axes3d import Axes3D

from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import label
from layernorm_roles.variants import PAPER_PROJECTION

VIEW = dict(elev=16, azim=-14)
"""Point of view of Figures 1a and 1b: elevation and azimuth in degrees."""

LIMIT = 1.9
"""Half the side of the box around the origin; keys after LayerNorm have length sqrt(3) = 1.73."""

ONES = dict(label="ones vector", ls="--", lw=0.9, color="#333333")
PLANE = dict(label="plane orthogonal to it", ls="", marker="s", ms=7, mec="none", color="#BBBBBB", alpha=0.6)
"""Looks, in a legend, of the ones vector and of the plane orthogonal to it."""

KEYS = dict(marker="o", s=13, alpha=0.75, linewidth=0)
QUERIES = dict(marker="^", s=11, color="black", linewidth=0)
SHORTENED = dict(
    label="queries, shortened", marker="^", s=11, facecolor="none", edgecolor="black", linewidth=0.5
)
"""Options of `Axes.scatter` for keys, for queries, and for queries drawn at the side of the box."""


def keys_and_queries(vectors: pd.DataFrame, experiment: str, variant: str) -> Figure:
    """Draw the keys and queries of all trained runs of a variant in three dimensions, with the ones vector.

    `vectors` is the table majority_vectors, in which `experiment` has a width of 3. The plane orthogonal to the ones
    vector is drawn as well. A panel below shows the lengths of keys and queries; its axis also spans the lengths of
    layernorm and scale_released, so that figures can be compared.
    """
    trained = vectors[(vectors.experiment == experiment) & (vectors.checkpoint == "final")]
    chosen = trained[trained.variant == variant]
    if chosen.empty:
        figure = plt.figure(figsize=(style.PAGE, 0.6))
        figure.text(
            0.5, 0.5, "Every run has diverged: there is no trained model to draw.", ha="center", va="center"
        )
        return figure
    colour = style.looks_of([variant])[variant]["color"]
    figure = plt.figure(figsize=(style.COLUMN, 3.5))
    grid = figure.add_gridspec(2, 1, height_ratios=[1, 0.13])
    axes = figure.add_subplot(grid[0], projection="3d")
    keys, queries = (np.stack(chosen.vector[chosen.kind == kind].to_list()) for kind in ("key", "query"))
    outside = _panel(axes, keys, queries, colour)
    title = f"{label(variant)} ({style.number_of([chosen.seed.nunique()], 'run')})"
    axes.set_title(title + (f"\n{outside} of {len(keys)} keys outside the box" if outside else ""), y=0.98)
    compared = trained[trained.variant.isin({*PAPER_PROJECTION, variant})]
    _lengths(figure.add_subplot(grid[1]), keys, queries, colour, _size(np.stack([*compared.vector])))
    key = dict(label="keys", marker="o", color=colour, alpha=0.8, mec="none", ls="", ms=4.5)
    query = dict(label="queries", marker="^", color="black", ls="", ms=4.5)
    shortened = query | dict(label=SHORTENED["label"], mfc="none")
    style.legend_below(figure, [key, query, ONES, PLANE], columns=2, further=[shortened])
    return figure


def _size(vectors: Float[np.ndarray, "vectors 3"]) -> Float[np.ndarray, " vectors"]:
    """Return the lengths of vectors for a logarithmic axis, at least 1e-6."""
    return np.maximum(np.linalg.norm(vectors, axis=1), 1e-6)


def _lengths(axes: Axes, keys: np.ndarray, queries: np.ndarray, colour: str, compared: np.ndarray) -> None:
    """Draw the lengths of keys above those of queries, on a logarithmic axis that holds all lengths `compared`."""
    for y, (vectors, look) in enumerate(((queries, QUERIES), (keys, KEYS | dict(color=colour)))):
        look = look | dict(alpha=0.35, s=9, clip_on=False)
        axes.scatter(_size(vectors), np.full(len(vectors), y), **look)
    low, high = compared.min() / 1.2, compared.max() * 1.2
    axes.set(xscale="log", xlabel="length", xlim=(low, high), ylim=(-0.6, 1.6))
    axes.set_yticks([0, 1], ["queries", "keys"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def _panel(axes: Axes3D, keys: np.ndarray, queries: np.ndarray, colour: str) -> int:
    """Draw keys and queries in three dimensions; return how many keys are outside the box, and so not drawn.

    A query outside is drawn hollow, in its direction at the side of the box.
    """
    plane_and_ones(axes, radius=1.15 * np.sqrt(3), half_length=0.95 * LIMIT)
    near = np.abs(keys).max(axis=1) <= LIMIT
    axes.scatter(*keys[near].T, color=colour, depthshade=False, **KEYS)
    excess = np.abs(queries).max(axis=1) / LIMIT
    inside = excess <= 1
    axes.scatter(*queries[inside].T, depthshade=False, **QUERIES)
    if not inside.all():
        axes.scatter(*(queries / excess[:, None])[~inside].T, depthshade=False, **SHORTENED)
    box(axes, LIMIT, ticks=(-1, 0, 1), zoom=0.95, view=VIEW, labelpad=-8)
    axes.tick_params(pad=-3, labelsize=6)
    return int((~near).sum())


def plane_and_ones(axes: Axes3D, radius: float, half_length: float) -> None:
    """Draw a disc in the plane orthogonal to the ones vector, and a line along the ones vector, in three dimensions.

    The disc has its centre at the origin. The line reaches from -half_length to half_length in each coordinate.
    """
    angle = np.linspace(0, 2 * np.pi, 90)
    across = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    disc = radius * (np.cos(angle)[:, None] * across[0] + np.sin(angle)[:, None] * across[1])
    axes.plot_trisurf(*disc.T, color="#BBBBBB", alpha=0.25, linewidth=0, shade=False)
    ones = np.array([[-1], [1]]) * np.full((1, 3), half_length)
    axes.plot(*ones.T, **ONES)


def box(
    axes: Axes3D, limit: float, ticks: Sequence[int], zoom: float, view: Mapping[str, int], **look
) -> None:
    """Let three axes of equal length reach from -limit to limit, with ticks at `ticks` and labels x_1, x_2 and x_3.

    `view` is the point of view, elev and azim in degrees. The drawn box is enlarged by the factor `zoom`. `look` has
    options of matplotlib's `set_xlabel` for the labels x_1, x_2 and x_3, such as fontsize.
    """
    for number, axis in enumerate("xyz", start=1):
        axes.set(**{f"{axis}lim": (-limit, limit), f"{axis}ticks": ticks})
        getattr(axes, f"set_{axis}label")(f"$x_{number}$", **look)
        getattr(axes, f"{axis}axis").set_rotate_label(False)
    axes.set_box_aspect((1, 1, 1), zoom=zoom)
    axes.view_init(**view)
