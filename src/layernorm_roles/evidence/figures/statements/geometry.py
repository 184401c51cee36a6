"""LayerNorm as projection, scaling, gain and bias: one cloud of points, and its difference from torch's own."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase

from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.vectors import box, plane_and_ones, plane_and_ones_marks

DTYPES = {"float16": "#D55E00", "bfloat16": "#E69F00", "float32": "#0072B2", "float64": "#009E73"}
"""Colour of each precision."""

PLACEMENTS = {"inside": "#332288", "outside": "#CC79A7"}
"""Colour of each place of eps: inside the root as in torch, or outside it."""

CEILING = 1e6
"""Where the axis of differences ends; results that are not finite are marked there."""

NOT_FINITE = {"ls": "", "marker": "x", "ms": 4}

STAGES = dict(x="inputs x", f="projection f", g="scaling g to length $\\sqrt{3}$", h="gain and bias h")
"""Title of each stage of the cloud."""

CLOUD_LIMIT = 3.2
"""Half the side of the box around the cloud."""


def geometry(table: pd.DataFrame, cloud: pd.DataFrame) -> Figure:
    """Draw the cloud before and after each step, the difference from torch, and what the place of eps does.

    table: geometry; cloud: geometry_cloud. Below, a legend stands under each panel.
    """
    figure = plt.figure(figsize=(style.PAGE, 6.9))
    above, below = figure.subfigures(2, 1, height_ratios=[3.9, 3.0])
    _clouds(above, cloud)
    measured = table[(table.norm == "layernorm") & table.input_norm.notna()]
    # One dimension is enough for the radius: the largest up to 64.
    n = max((n for n in measured.n.unique() if n <= 64), default=measured.n.min())
    centred = measured[(measured.dtype == "float64") & (measured.offset == 0) & (measured.n == n)]
    centred = centred.assign(size=centred.input_norm / np.sqrt(n)).sort_values("size")
    grid = below.subplots(2, 3, height_ratios=[1, 0.3])
    panels = (_difference_from_torch, measured), (_radius, centred), (_difference_of_placements, centred)
    for panel, key, (draw, rows) in zip(*grid, panels, strict=True):
        handles = draw(panel, rows)
        key.set_axis_off()
        look = {"fontsize": 6, "ncols": 2, "columnspacing": 0.8, "borderaxespad": 0}
        legend = key.legend(handles=handles, loc="upper center", **look)
        legend.set_in_layout(False)  # so that the three panels keep one height
    return figure


def _difference_from_torch(axes: Axes, measured: pd.DataFrame) -> Sequence[Artist]:
    """Draw the largest difference over all dimensions by the inputs' length; return the legend's entries."""
    rows = measured[
        (measured.eps == measured.eps.max())
        & (measured.eps_placement == "inside")
        & (measured.quantity == "difference_from_torch")
    ]
    strokes = dict(zip(sorted(rows.offset.unique()), ("-", ":", "--"), strict=False))
    largest = rows.groupby(["dtype", "offset", "input_norm"]).value.max().reset_index()
    finite = np.isfinite(largest.value)
    for (dtype, offset), part in largest[finite].groupby(["dtype", "offset"]):
        axes.plot(part.input_norm, part.value, strokes[offset], color=DTYPES[dtype], lw=1.2)
    for (dtype, _), part in largest[~finite].groupby(["dtype", "offset"]):
        ceiling = np.full(len(part), CEILING)
        axes.plot(part.input_norm, ceiling, color=DTYPES[dtype], clip_on=False, **NOT_FINITE)
    axes.set(xscale="log", yscale="log", xlabel="length of the inputs", ylim=(1e-17, CEILING))
    axes.set(title="difference from torch", ylabel="largest difference")
    present = set(rows.dtype)
    handles = [style.mark(name, color=tone, lw=1.2) for name, tone in DTYPES.items() if name in present]
    for offset, stroke in strokes.items():
        label = f"mean {offset:g} × length" if offset else "mean near 0"
        handles.append(style.mark(label, color=style.GREY, ls=stroke, lw=1.2))
    if not finite.all():
        handles.append(style.mark("not finite", color=style.GREY, **NOT_FINITE))
    return handles


def _radius(axes: Axes, centred: pd.DataFrame) -> Sequence[Artist]:
    """Draw the radius after scaling, measured and by the formula; return the legend's entries."""
    grid = np.geomspace(centred["size"].min(), centred["size"].max(), 300)
    handles = []
    for placement, colour in PLACEMENTS.items():
        for eps, stroke in _strokes_of_eps(centred):
            exact = 1 / np.sqrt(1 + eps / grid**2) if placement == "inside" else 1 / (1 + eps / grid)
            axes.plot(grid, exact, stroke, color=colour)
            part = centred[(centred.eps_placement == placement) & (centred.eps == eps)]
            part = part[part.quantity == "radius_mean"]
            axes.plot(part["size"], part.value, "o", color=colour, ms=2.5)
            handles.append(style.mark(f"{placement}, ε = {style.power(eps)}", color=colour, ls=stroke))
    axes.set(xscale="log", xlabel="root mean square of f(x)", ylim=(0, 1.05), xlim=(grid[0], 1))
    axes.set(title="radius after scaling", ylabel="radius over $\\sqrt{n}$")
    return handles


def _difference_of_placements(axes: Axes, centred: pd.DataFrame) -> Sequence[Artist]:
    """Draw the difference between eps outside the root and torch; return the legend's entries."""
    handles = []
    for eps, stroke in _strokes_of_eps(centred):
        part = centred[(centred.eps_placement == "outside") & (centred.eps == eps)]
        part = part[part.quantity == "difference_from_torch"]
        look = {"ls": stroke, "marker": "o", "ms": 2.5, "color": PLACEMENTS["outside"]}
        axes.plot(part["size"], part.value, **look)
        handles.append(style.mark(f"ε = {style.power(eps)}", **look))
    axes.set(xscale="log", yscale="log", xlabel="root mean square of f(x)")
    axes.set(title="ε outside against inside", ylabel="largest difference")
    return handles


def _strokes_of_eps(rows: pd.DataFrame) -> list[tuple[float, str]]:
    """Pair every eps, the largest first, with a line style."""
    return list(zip(sorted(rows.eps.unique(), reverse=True), ("-", "--", ":"), strict=False))


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
