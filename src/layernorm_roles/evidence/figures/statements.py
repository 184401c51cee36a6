"""The experiments on what other documents say about LayerNorm: a figure for each of them."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import LogFormatterSciNotation, NullFormatter, PercentFormatter

from layernorm_roles.evidence.analysis.statements import final_losses, position_accuracies
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.vectors import ONES, PLANE, box, plane_and_ones

# Geometry

PLACEMENTS = {"inside": "#332288", "outside": style.PURPLE}
"""Colour of each place of eps: inside the root as in torch, or outside it."""

STAGES = dict(x="inputs x", f="projection f", g="scaling g to length $\\sqrt{3}$", h="gain and bias h")
"""Panel titles for the steps of LayerNorm, h(g(f(x))), by their letters in table geometry_cloud."""


def geometry(table: pd.DataFrame, cloud: pd.DataFrame) -> Figure:
    """Draw points before and after each step of LayerNorm, the radius after scaling, and differences from torch.

    table: geometry, of whose dimensions the largest up to 64 is drawn; cloud: geometry_cloud.
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


# Fusion

ARRANGEMENTS = {
    "plain": dict(label="nothing between", color="#7F7F7F", marker="o", ms=3.5),
    "norm": dict(label="LayerNorm", color=style.BLUE, marker="s", ms=3.5),
    "residual": dict(label="residual", color=style.ORANGE, marker="^", ms=3.5, lw=2.2),
    "residual_norm": dict(label="residual and LayerNorm", color=style.GREEN, marker="D", ms=3.5, ls="--"),
}
"""Looks of curves by what stands between W_O and W_1; the wide and the dashed line coincide and show both."""

TRAINED_LAYER = dict(label="trained, one layer and seed", marker="o", ms=3.5, ls="", mfc="none", mew=0.7)
TRAINED_LAYER |= dict(mec=style.GREY)
"""Look of the mark of one layer of a trained model, whose form and edge are those of its arrangement's curve."""


def fusion(table: pd.DataFrame) -> Figure:
    """Draw what the best single matrix in place of W_O and W_1 misses, by the stream's width, from table fusion."""
    figure, axes = plt.subplots(figsize=(style.PAGE, 2.9))
    table = table.assign(percent=100 * table.error)
    random, trained = table[table.source == "random"], table[table.source != "random"]
    style.lines(axes, random, "arrangement", ARRANGEMENTS, "d", "percent")
    for name, rows in trained.groupby("arrangement"):
        apart = 1 + 0.08 * (rows.layer - rows.layer.mean())
        look = dict(marker=ARRANGEMENTS[name]["marker"], mec=ARRANGEMENTS[name]["color"])
        axes.plot(rows.d * apart, rows.percent, **TRAINED_LAYER | look)
    axes.set(xscale="log", xlabel="width of the stream, d_model")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(ylim=(-0.01, 110), ylabel="variance missed\nby the best map (%)")
    axes.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    style.ticks_at(axes, table.d)
    title = f"lines are {style.means_over([random.seed.nunique()])}"
    style.legend_below(figure, ARRANGEMENTS.values(), columns=5, further=[TRAINED_LAYER], title=title)
    return figure


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


def placement(table: pd.DataFrame, untrained: pd.DataFrame, probe: pd.DataFrame) -> Figure:
    """Draw final losses of pre-norm and post-norm networks by learning rate; below, gradients and probed positions.

    table: placement, of which runs that diverged are counted. untrained: untrained_gradients, as geometric means over
    those that neither vanish nor overflow. probe: position_probe, of the deepest networks in it.
    """
    figure = plt.figure(figsize=(style.PAGE, 5.0))
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.25])
    losses = final_losses(table)
    depths = sorted(losses.depth.unique())
    panels = above.subplots(1, len(depths), sharey=True, squeeze=False)[0]
    for axes, depth in zip(panels, depths, strict=True):
        here = losses[losses.depth == depth]
        finite, looks = here[np.isfinite(here.loss)], style.each(PLACES, **RESIDUAL[True])
        style.lines(axes, finite, "placement", looks, "learning_rate", "loss", spread="range")
        if lost := len(here) - len(finite):
            place = dict(transform=axes.transAxes, ha="right", va="top")
            axes.text(0.98, 0.98, f"{lost} diverged", fontsize=6, **place)
        style.rates(axes, losses.learning_rate)
        axes.set(title=f"{depth} layers", xlabel="learning rate")
    panels[0].set_ylabel("final loss (nats)")
    normed, bare, *probed = below.subplots(1, 4)
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
    probed[0].set_ylabel("tokens whose position\na probe names (%)")
    entries = [*PLACES.values(), *style.each(RESIDUAL, color=style.GREY).values(), GUESSING]
    title = style.means_over([table.seed.nunique() for table in (losses, first, shares)])
    style.legend_below(below, entries, columns=3, title=title)
    return figure


# Dependence on the batch

NORMS = {
    "layernorm": dict(label="LayerNorm", color=style.BLUE, marker="o", ms=3),
    "batchnorm": dict(label="BatchNorm", color=style.VERMILION, marker="o", ms=3),
}
"""Looks of LayerNorm and BatchNorm, by their names in table batch_dependence."""


def batch_dependence(table: pd.DataFrame) -> Figure:
    """Draw how far a token's output changes with its batch's other sequences and padding, from batch_dependence."""
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.4))
    for axes, effect, x in zip(panels, ("others", "padding"), ("batch_size", "padding"), strict=True):
        # Padding has one value a seed and share, the mean over batch sizes, which hardly matter there.
        part = table[table.effect == effect].groupby(["norm", x, "seed"], as_index=False).change.mean()
        style.lines(axes, part, "norm", NORMS, x, "change")
    others, padding = panels
    others.set(title="other sequences drawn anew", xlabel="sequences in the batch", xscale="log")
    others.set_ylabel("change of a token's output\n(size of the output is 1)")
    style.ticks_at(others, table.batch_size[table.effect == "others"])
    padding.set(title="padding after sequences", xlabel="share of padding")
    padding.set_xticks(sorted(table.padding[table.effect == "padding"].unique()))
    padding.xaxis.set_major_formatter(PercentFormatter(1))
    style.legend_below(figure, NORMS.values(), columns=2, title=style.means_over([table.seed.nunique()]))
    return figure


# Scale of the scores

DIVIDED = {
    False: dict(label="not divided", color=style.VERMILION, marker="o", ms=3),
    True: dict(label="divided by $\\sqrt{d_k}$", color=style.BLUE, marker="o", ms=3),
}
"""Looks of attention scores that are not divided by sqrt(d_k), and of those that are."""

SCORES = {
    "score_std": ("scores", "standard deviation"),
    "entropy_share": ("entropy of attention", "share of its maximum ln n"),
    "gradient": ("softmax's Jacobian", "trace"),
}
"""Title and label of the y axis for each column of score_scale that is drawn."""

ROOT = dict(label="$\\sqrt{d_k}$", color="#333333", lw=0.7, ls=":")


def score_scale(table: pd.DataFrame) -> Figure:
    """Draw spread of the scores, entropy of attention and trace of the softmax's Jacobian against d_k.

    table: score_scale, of which queries and keys of mean 0 are drawn.
    """
    figure, panels = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    normal = table[table.source == "normal"]
    d_k = np.array(sorted(normal.d_k.unique()))
    for axes, (column, (title, label)) in zip(panels, SCORES.items(), strict=True):
        style.lines(axes, normal, "divided", DIVIDED, "d_k", column)
        axes.set(xscale="log", title=title, ylabel=label)
        axes.set_xlabel("dimension of queries and keys, $d_k$", fontsize=7)
        style.ticks_at(axes, [d for d in (2, 8, 32, 128, 512) if d_k[0] <= d <= d_k[-1]])
    panels[0].plot(d_k, np.sqrt(d_k), **ROOT)
    panels[0].set_yscale("log")
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    for axes in panels[1:]:
        axes.set_ylim(0, 1.02)
    title = style.means_over([normal.seed.nunique()])
    style.legend_below(figure, [*DIVIDED.values(), ROOT], columns=3, title=title)
    return figure
