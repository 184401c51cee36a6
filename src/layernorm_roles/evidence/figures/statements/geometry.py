"""LayerNorm as projection, scaling, gain and bias: one cloud of points, and what the place of eps does."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase

from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.vectors import box, plane_and_ones, plane_and_ones_marks

PLACEMENTS = {"inside": "#332288", "outside": "#CC79A7"}
"""Colour of each place of eps: inside the root as in torch, or outside it."""

STAGES = dict(x="inputs x", f="projection f", g="scaling g to length $\\sqrt{3}$", h="gain and bias h")
"""Title of each stage of the cloud."""

CLOUD_LIMIT = 3.2
"""Half the side of the box around the cloud."""


def geometry(table: pd.DataFrame, cloud: pd.DataFrame) -> Figure:
    """Draw the cloud before and after each step, the radius after scaling, and the difference from torch.

    table: geometry, of which one dimension is drawn below, the largest up to 64; cloud: geometry_cloud.
    """
    figure = plt.figure(figsize=(style.PAGE, 6.4))
    above, below = figure.subfigures(2, 1, height_ratios=[3.9, 2.5])
    _clouds(above, cloud)
    measured = table[table.input_norm.notna()]
    n = max((n for n in measured.n.unique() if n <= 64), default=measured.n.min())
    rows = measured[measured.n == n]
    rows = rows.assign(size=rows.input_norm / np.sqrt(n)).sort_values("size")
    grid = np.geomspace(rows["size"].min(), rows["size"].max(), 300)
    radius, difference = below.subplots(1, 2)
    strokes = list(zip(sorted(rows.eps.unique(), reverse=True), ("-", "--"), strict=False))
    handles = []
    for (placement, colour), (eps, stroke) in ((p, s) for p in PLACEMENTS.items() for s in strokes):
        part = rows[(rows.eps_placement == placement) & (rows.eps == eps)]
        exact = 1 / np.sqrt(1 + eps / grid**2) if placement == "inside" else 1 / (1 + eps / grid)
        radius.plot(grid, exact, stroke, color=colour)
        points = {"color": colour, "marker": "o", "ms": 2.5}
        means = part[part.quantity == "radius_mean"]
        radius.plot(means["size"], means.value, ls="", **points)
        largest = part[part.quantity == "difference_from_torch"]
        difference.plot(largest["size"], largest.value, ls=stroke, **points)
        handles.append(style.mark(f"{placement}, ε = {style.power(eps)}", ls=stroke, **points))
    radius.set(title="radius after scaling", ylabel="radius over $\\sqrt{n}$", ylim=(0, 1.05))
    difference.set(title="difference from torch", ylabel="largest difference", yscale="log")
    for axes in (radius, difference):
        axes.set(xscale="log", xlabel="root mean square of f(x)")
    style.legend_below(below, handles, columns=4)
    return figure


def _clouds(figure: FigureBase, cloud: pd.DataFrame) -> None:
    """Draw one cloud of points before and after each step, LayerNorm above and RMSNorm below.

    Points have the colour of their height before, and all panels have equal axes and one point of view, between the
    plane's edge and its normal, so that a circle in the plane shows as one.
    """
    for row, (norm, name) in enumerate({"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}.items()):
        of_norm = cloud[cloud.norm == norm].sort_values("point")
        height = of_norm[of_norm.stage == "x"].x3.rank(pct=True).to_numpy()
        for column, (stage, label) in enumerate(STAGES.items()):
            points = of_norm[of_norm.stage == stage][["x1", "x2", "x3"]].to_numpy()
            axes = figure.add_subplot(2, 4, 4 * row + column + 1, projection="3d")
            if not len(points):
                axes.set_axis_off()
                axes.text2D(0.5, 0.5, f"no {label}", ha="center", transform=axes.transAxes, color=style.GREY)
                continue
            plane_and_ones(axes, radius=2.6, half_length=2.0)
            look = {"s": 2.5, "c": height, "cmap": "viridis", "vmin": 0, "vmax": 1, "linewidth": 0}
            axes.scatter(*points.T, depthshade=False, **look)
            view = {"elev": 24, "azim": 8}
            box(axes, CLOUD_LIMIT, ticks=(-2, 0, 2), zoom=1.0, view=view, labelpad=-11, fontsize=6)
            axes.tick_params(pad=-4, labelsize=5)
            title = "gain" if (norm, stage) == ("rmsnorm", "h") else label
            axes.set_title(f"{name}: {title}" if column == 0 else title, y=0.98)
    key = ScalarMappable(Normalize(0, 1), "viridis")
    options = {"ax": figure.axes, "location": "right", "shrink": 0.5, "aspect": 28, "pad": 0.04}
    figure.colorbar(key, label="rank of the input's $x_3$\n(0 lowest, 1 highest)", **options)
    style.legend_below(figure, plane_and_ones_marks(), columns=2)
