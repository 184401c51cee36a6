"""What other documents say about the geometry of LayerNorm and where it stands: a figure for each."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import LogFormatterSciNotation

from layernorm_roles.evidence.analysis.statements import final_losses, position_accuracies
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.vectors import ONES, PLANE, box, plane_and_ones

# Geometry

PLACEMENTS = {"inside": "#332288", "outside": style.PURPLE}
"""Colour of each place of eps: inside the root as in torch, or outside it."""

STAGES = dict(x="inputs x", f="projection f", g="scaling g to length $\\sqrt{3}$", h="gain and bias h")
"""Panel titles for the steps of LayerNorm, h(g(f(x))), by their letters in table geometry_cloud."""


def geometry(table: pd.DataFrame, cloud: pd.DataFrame) -> Figure:
    """Draw points at each step of LayerNorm, how eps changes the radius after scaling, and differences from torch.

    `cloud` is the table geometry_cloud; `table` is the table geometry, drawn for its largest dimension up to 64.
    """
    figure = plt.figure(figsize=(style.PAGE, 6.4))
    above, below = figure.subfigures(2, 1, height_ratios=[3.9, 2.5])
    _clouds(above, cloud)
    measured = table[table.input_norm.notna()]
    n = max((n for n in measured.n.unique() if n <= 64), default=measured.n.min())
    rows = measured[measured.n == n]
    rows = rows.assign(size=rows.input_norm / np.sqrt(n)).sort_values("size")
    sizes = np.geomspace(rows["size"].min(), rows["size"].max(), 300)
    radius, difference = below.subplots(1, 2)
    power = LogFormatterSciNotation()  # 1e-5 as the ticks of a logarithmic axis have it
    strokes = zip(sorted(rows.eps.unique(), reverse=True), ("-", "--"), strict=False)
    entries = []
    for (placement, colour), (eps, stroke) in product(PLACEMENTS.items(), strokes):
        part = rows[(rows.eps_placement == placement) & (rows.eps == eps)]
        exact = 1 / np.sqrt(1 + eps / sizes**2) if placement == "inside" else 1 / (1 + eps / sizes)
        radius.plot(sizes, exact, stroke, color=colour)
        look = dict(label=f"{placement}, ε = {power(eps)}", color=colour, marker="o", ms=2.5, ls=stroke)
        entries.append(look)
        values = part.pivot(index="size", columns="quantity", values="value")
        radius.plot(values.radius_mean, **look | dict(ls=""))
        difference.plot(values.difference_from_torch, **look)
    radius.set(title="radius after scaling", ylabel="radius over $\\sqrt{n}$", ylim=(0, 1.05))
    difference.set(title="difference from torch", ylabel="largest difference", yscale="log")
    for axes in (radius, difference):
        axes.set(xscale="log", xlabel="root mean square of f(x)")
    style.legend_below(below, entries, columns=4)
    return figure


def _clouds(figure: FigureBase, cloud: pd.DataFrame) -> None:
    """Draw points before and after each step of LayerNorm, above, and of RMSNorm, in the colours of their first height.

    The point of view is between the plane's edge and its normal, so that a circle in the plane shows as one.
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
            look = dict(s=2.5, c=height, cmap="viridis", vmin=0, vmax=1, linewidth=0)
            axes.scatter(*points.T, depthshade=False, **look)
            view = dict(elev=24, azim=8)
            box(axes, limit=3.2, ticks=(-2, 0, 2), zoom=1.0, view=view, labelpad=-11, fontsize=6)
            axes.tick_params(pad=-4, labelsize=5)
            title = "gain" if (norm, stage) == ("rmsnorm", "h") else label
            axes.set_title(f"{name}: {title}" if column == 0 else title, y=0.98)
    key = ScalarMappable(Normalize(0, 1), "viridis")
    options = dict(ax=figure.axes, location="right", shrink=0.5, aspect=28, pad=0.04)
    figure.colorbar(key, label="rank of the input's $x_3$\n(0 lowest, 1 highest)", **options)
    style.legend_below(figure, [ONES, PLANE], columns=2)


# Placement

PLACES = {
    "pre": dict(label="pre-norm", color=style.BLUE),
    "post": dict(label="post-norm", color=style.VERMILION),
    "none": dict(label="no LayerNorm", color=style.GREY),
}
"""Looks of networks by where their LayerNorms stand: before attention and MLP, after them, or nowhere."""

RESIDUAL = {
    True: dict(label="with residual connections", ls="-", marker="o", ms=2.5),
    False: dict(label="without residual connections", ls="--", marker="o", ms=2.5),
}
GUESSING = dict(label="guessing", color="black", ls=":", lw=1.0)


def placement(table: pd.DataFrame) -> Figure:
    """Draw final losses of pre-norm and post-norm networks by learning rate, from the table placement."""
    losses = final_losses(table)
    depths = sorted(losses.depth.unique())
    figure, (panels,) = plt.subplots(1, len(depths), figsize=(style.PAGE, 2.6), sharey=True, squeeze=False)
    looks = style.each(PLACES, marker="o", ms=2.5)
    for axes, depth in zip(panels, depths, strict=True):
        here = losses[losses.depth == depth]
        finite = here[np.isfinite(here.loss)]
        style.lines(axes, finite, "placement", looks, "learning_rate", "loss", spread="range")
        if lost := len(here) - len(finite):
            place = dict(transform=axes.transAxes, ha="right", va="top")
            axes.text(0.98, 0.98, f"{lost} diverged", fontsize=6, **place)
        style.rates(axes, losses.learning_rate)
        axes.set(title=f"{depth} layers", xlabel="learning rate")
    panels[0].set_ylabel("final training loss\n(nats per token)")
    seeds = style.number_of([losses.seed.nunique()], "seed")
    entries = [look for name, look in looks.items() if name in {*losses.placement}]
    style.legend_below(figure, entries, columns=3, title=f"means over {seeds}")
    return figure


def residual(untrained: pd.DataFrame, probe: pd.DataFrame) -> Figure:
    """Draw gradients and probed positions of networks with and without residual connections.

    `untrained` is the table untrained_gradients, without gradients that are zero or infinite. `probe` is the table
    position_probe, of its deepest networks.
    """
    figure, (normed, bare, *probed) = plt.subplots(1, 4, figsize=(style.PAGE, 2.9))
    first = untrained[np.isfinite(untrained.gradient_norm) & (untrained.gradient_norm > 0)]
    shares = position_accuracies(probe)
    for residual, stroke in RESIDUAL.items():
        looks = style.each(PLACES, **stroke)
        for axes, without in ((normed, False), (bare, True)):
            part = first[(first.residual == residual) & ((first.placement == "none") == without)]
            options = dict(spread="range", geometric=True)
            style.lines(axes, part, "placement", looks, "depth", "gradient_norm", **options)
        for axes, trained in zip(probed, (False, True), strict=True):
            part = shares[(shares.trained == trained) & (shares.residual == residual)]
            style.lines(axes, part, "placement", looks, "layer", "percent", spread="range")
    for axes, title in ((normed, "LayerNorm"), (bare, "no LayerNorm")):
        axes.set(xscale="log", yscale="log", title=title, xlabel="layers, untrained")
        style.ticks_at(axes, untrained.depth)
    normed.set_ylabel("gradient norm of\nthe first layer")
    for axes, title in zip(probed, ("untrained", "trained"), strict=True):
        axes.axhline(100 / probe.context_length.max(), **GUESSING)
        axes.set(title=title, xlabel="before layer", ylim=(0, 103), xticks=sorted(shares.layer.unique()))
    probed[0].set_ylabel("positions that a\nlinear probe reads (%)")
    entries = [*PLACES.values(), *style.each(RESIDUAL, color=style.GREY).values(), GUESSING]
    seeds = style.number_of([each.seed.nunique() for each in (first, shares)], "seed")
    style.legend_below(figure, entries, columns=3, title=f"means over {seeds}")
    return figure
