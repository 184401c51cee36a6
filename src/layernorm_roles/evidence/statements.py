"""Figures of the experiments on what other documents say about LayerNorm."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator, PercentFormatter, ScalarFormatter

from layernorm_roles.evidence import style
from layernorm_roles.evidence.statistics import t_interval

BLUE, ORANGE, GREEN, VERMILION, PURPLE, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#7F7F7F",
)
DTYPES = {"float16": VERMILION, "bfloat16": ORANGE, "float32": BLUE, "float64": GREEN}
ARRANGEMENTS = {
    "plain": ("nothing between", GREY, "o"),
    "norm": ("LayerNorm", BLUE, "s"),
    "residual": ("residual", ORANGE, "^"),
    "residual_norm": ("residual and LayerNorm", GREEN, "D"),
}
PLACEMENTS = {"pre": ("pre-norm", BLUE), "post": ("post-norm", VERMILION)}
VERDICTS = {"right": GREEN, "follows": ORANGE, "not right": VERMILION}
EXACT = 1e-20
"""An error below this is rounding: it is drawn on the axis."""


def draw(name: str, table: pd.DataFrame) -> Figure:
    """The figure of the table called `name`."""
    return globals()[f"draw_{name}"](table)


# Geometry


def draw_geometry_cloud(cloud: pd.DataFrame) -> Figure:
    """The same points before and after each step, LayerNorm above, RMSNorm below; colour: height before."""
    stages = {
        "x": "inputs x",
        "f": "f: projection",
        "g": "g: scaling to $\\sqrt{3}$",
        "h": "h: gain and bias",
    }
    figure = plt.figure(figsize=(style.PAGE, 3.9))
    for row, (norm, title) in enumerate((("layernorm", "LayerNorm"), ("rmsnorm", "RMSNorm"))):
        of_norm = cloud[cloud.norm == norm]
        colour = of_norm[of_norm.stage == "x"].sort_values("point").x3.rank()
        for column, (stage, label) in enumerate(stages.items()):
            points = of_norm[of_norm.stage == stage].sort_values("point")[["x1", "x2", "x3"]].to_numpy()
            axes = figure.add_subplot(2, 4, 4 * row + column + 1, projection="3d")
            if not len(points):
                axes.set_axis_off()
                axes.text2D(0.5, 0.5, "no projection", ha="center", transform=axes.transAxes, color=GREY)
                continue
            _cloud(axes, points, colour)
            if norm == "rmsnorm" and stage == "h":
                label = "gain"
            axes.set_title(f"{title}\n{label}" if column == 0 else f"\n{label}", y=0.98)
    figure.get_layout_engine().set(w_pad=0, h_pad=0, wspace=0, hspace=0.02)
    return figure


def _cloud(axes, points: np.ndarray, colour: pd.Series) -> None:
    """Points, the hyperplane x1 + x2 + x3 = 0 and the ones vector, on axes that are the same in every panel."""
    limit = 3.2
    angle = np.linspace(0, 2 * np.pi, 90)
    across = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    disc = 2.6 * (np.cos(angle)[:, None] * across[0] + np.sin(angle)[:, None] * across[1])
    axes.plot_trisurf(*disc.T, color="#BBBBBB", alpha=0.25, linewidth=0, shade=False)
    axes.plot(*np.array([[-1], [1]]).repeat(3, axis=1).T * 2.0, ls="--", lw=0.8, color="#333333")
    axes.scatter(*points.T, s=2.5, c=colour, cmap="viridis", linewidth=0, depthshade=False)
    ticks = {"xticks": [-2, 0, 2], "yticks": [-2, 0, 2], "zticks": [-2, 0, 2]}
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), zlim=(-limit, limit), **ticks)
    axes.tick_params(pad=-4, labelsize=5)
    axes.set_box_aspect((1, 1, 1), zoom=1.05)
    # Between the plane's edge and its normal: a circle in it shows as one.
    axes.view_init(elev=24, azim=8)


def draw_geometry(geometry: pd.DataFrame) -> Figure:
    """Equality with torch in each precision; what eps does to the radius, inside the root and outside."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(style.PAGE, 2.9))
    table = geometry[(geometry.norm == "layernorm") & geometry.input_norm.notna()]
    usual = table.eps == table.eps.max()

    same = table[usual & (table.eps_placement == "inside") & (table.quantity == "difference_from_torch")]
    for dtype, colour in DTYPES.items():
        for offset, line in zip(sorted(same.offset.unique()), ("-", ":"), strict=False):
            part = same[(same.dtype == dtype) & (same.offset == offset)].groupby("input_norm").value.max()
            finite = np.isfinite(part)
            left.plot(part.index[finite], part[finite], line, color=colour, lw=1.2)
            left.plot(
                part.index[~finite], np.full((~finite).sum(), 1e6), "x", color=colour, ms=4, clip_on=False
            )
    left.set(xscale="log", yscale="log", xlabel="norm of the input", ylim=(1e-17, 1e6))
    left.set_title("largest difference from torch")
    handles = [Line2D([], [], color=colour, label=dtype) for dtype, colour in DTYPES.items()]
    offsets = sorted(same.offset.unique())
    handles += [
        Line2D(
            [], [], color="#555555", ls=line, label=f"mean {offset:g} × as large" if offset else "mean near 0"
        )
        for offset, line in zip(offsets, ("-", ":"), strict=False)
    ]
    handles.append(Line2D([], [], color="#555555", ls="", marker="x", ms=4, label="not finite"))
    _legend_below(left, handles=handles)

    double = table[(table.dtype == "float64") & (table.offset == 0) & (table.n == _example_dimension(table))]
    n = _example_dimension(table)
    size = double.input_norm / np.sqrt(n)
    grid = np.geomspace(size.min(), size.max(), 300)
    for placement, colour in (("inside", BLUE), ("outside", ORANGE)):
        for eps, line in zip(sorted(double.eps.unique(), reverse=True), ("-", "--"), strict=False):
            exact = 1 / np.sqrt(1 + eps / grid**2) if placement == "inside" else 1 / (1 + eps / grid)
            middle.plot(grid, exact, line, color=colour, label=f"{placement}, eps {eps:.0e}")
            part = double[(double.eps_placement == placement) & (double.eps == eps)]
            radius = part[part.quantity == "radius_mean"]
            middle.plot(radius.input_norm / np.sqrt(n), radius.value, "o", color=colour, ms=2.5)
    middle.set(xscale="log", xlabel="root mean square of f(x)", ylim=(0, 1.05), xlim=(grid[0], 1))
    middle.set_title("radius of g(f(x)) over $\\sqrt{n}$")
    _legend_below(middle)

    for eps, line in zip(sorted(double.eps.unique(), reverse=True), ("-", "--"), strict=False):
        part = double[(double.eps_placement == "outside") & (double.eps == eps)]
        gap = part[part.quantity == "difference_from_torch"].sort_values("input_norm")
        right.plot(
            gap.input_norm / np.sqrt(n),
            gap.value,
            line,
            marker="o",
            ms=2.5,
            color=PURPLE,
            label=f"eps {eps:.0e}",
        )
    right.set(xscale="log", yscale="log", xlabel="root mean square of f(x)")
    right.set_title("difference, ε in or out")
    _legend_below(right)
    return figure


def _legend_below(axes: Axes, **options) -> None:
    place = {"loc": "upper left", "bbox_to_anchor": (-0.16, -0.24), "ncols": 2, "columnspacing": 1.0}
    axes.legend(fontsize=6, **place, **options)


def _example_dimension(table: pd.DataFrame) -> int:
    """The dimension shown where one is enough: the largest up to 64."""
    return int(max((n for n in table.n.unique() if n <= 64), default=table.n.min()))


# Fusion


def draw_fusion(fusion: pd.DataFrame) -> Figure:
    """What the best single map misses, of the heads alone and of stream and heads; and what it costs."""
    figure, axes = plt.subplots(1, 3, figsize=(style.PAGE, 2.6), width_ratios=[1, 1, 0.9])
    floor = 10 ** np.floor(np.log10(fusion.error[fusion.error > EXACT].min()))
    equal = fusion[fusion.d_heads == fusion.d]
    titles = {"heads": "map of the heads c", "stream_and_heads": "map of stream and heads [x, c]"}
    for panel, (inputs, title) in zip(axes, titles.items(), strict=False):
        for name, (_, colour, marker) in ARRANGEMENTS.items():
            part = equal[(equal.inputs == inputs) & (equal.arrangement == name)].assign(
                error=lambda rows: rows.error.where(rows.error > EXACT, floor)
            )
            random = part[part.source == "random"].groupby("d").error.agg(["mean", t_interval])
            low, high = np.array(random["t_interval"].tolist()).T
            panel.fill_between(random.index, np.maximum(low, floor), high, color=colour, alpha=0.2, lw=0)
            panel.plot(
                random.index, random["mean"], marker + "-", color=colour, ms=3.5, clip_on=False, zorder=3
            )
            trained = part[part.source != "random"]
            spread = 1 + 0.08 * (trained.layer - trained.layer.mean())
            panel.plot(
                trained.d * spread,
                trained.error,
                marker,
                mfc="none",
                mec=colour,
                ms=3.5,
                mew=0.7,
                clip_on=False,
            )
        panel.set(xscale="log", yscale="log", ylim=(floor, 1.3), xlabel="width d of the stream")
        _plain_ticks(panel, sorted(equal.d.unique()))
        panel.set_title(title)
    axes[0].set_ylabel("variance missed by the best map")
    axes[1].annotate(
        "exact to rounding", (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize=6, color="#555555"
    )
    handles = [
        Line2D([], [], color=colour, marker=marker, ms=3.5, label=label)
        for label, colour, marker in ARRANGEMENTS.values()
    ]
    if (fusion.source != "random").any():
        handles.append(
            Line2D(
                [], [], ls="", marker="o", mfc="none", mec="#555555", ms=3.5, label="trained (a mark a layer)"
            )
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.0, handletextpad=0.4)

    random = fusion[
        (fusion.source == "random") & (fusion.arrangement == "plain") & (fusion.d == fusion.d.max())
    ]
    for inputs, colour, label in (("heads", GREY, "map of c"), ("stream_and_heads", PURPLE, "map of [x, c]")):
        part = random[random.inputs == inputs].drop_duplicates("d_heads")
        ratio = part.parameters_single / part.parameters_pair
        axes[2].plot(part.d_heads / part.d, ratio, "o-", color=colour, ms=3.5, label=label)
    axes[2].axhline(1, color="#555555", lw=0.7, ls=":")
    axes[2].set(xlabel="width of the heads over d", ylim=(0, None), xscale="log")
    _plain_ticks(axes[2], sorted((random.d_heads / random.d).unique()))
    axes[2].set_title("entries: map over pair")
    axes[2].legend()
    return figure


def _plain_ticks(axes: Axes, values) -> None:
    axes.set_xticks(values)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


# Placement


def draw_placement(placement: pd.DataFrame) -> Figure:
    """Training loss beside that of token frequencies on the same tokens: a column a depth, a row a learning rate."""
    depths, rates = sorted(placement.depth.unique()), sorted(placement.learning_rate.unique())
    size = (style.PAGE, 1.0 + 1.6 * len(rates))
    figure, grid = plt.subplots(
        len(rates), len(depths), figsize=size, sharex=True, sharey=True, squeeze=False
    )
    warmups = sorted(placement.warmup.unique())
    # The difference on equal tokens: which batch it is moves both losses alike.
    placement = placement.assign(gain=placement.train_loss - placement.unigram_loss)
    smooth = max(1, (placement.step.max() + 1) // 20)
    for row, rate in zip(grid, rates, strict=True):
        for axes, depth in zip(row, depths, strict=True):
            part = placement[(placement.learning_rate == rate) & (placement.depth == depth)]
            # Means over a twentieth of the run: single batches are small and noisy.
            part = part.assign(step=part.step // smooth * smooth + smooth / 2)
            keys = ["placement", "warmup", "seed", "step"]
            part = part.groupby(keys, as_index=False).gain.mean()
            for name, (_, colour) in PLACEMENTS.items():
                for warmup, line in zip(warmups, ("-", "--", ":"), strict=False):
                    runs = part[(part.placement == name) & (part.warmup == warmup)]
                    curves = runs.pivot(index="step", columns="seed", values="gain")
                    axes.plot(curves.index, curves.mean(axis=1), line, color=colour, lw=1.3)
                    axes.fill_between(
                        curves.index, curves.min(axis=1), curves.max(axis=1), color=colour, alpha=0.15, lw=0
                    )
            axes.axhline(0, color="#555555", lw=0.7, ls=":")
            failed = placement[(placement.learning_rate == rate) & (placement.depth == depth)]
            _count_failures(axes, failed)
            axes.set_title(f"{depth} layers" if rate == rates[0] else "")
            axes.set(ylim=(-0.35, 1.0))
        row[0].set_ylabel(f"rate {rate:g}\nloss above token\nfrequencies (nats)")
    for axes in grid[-1]:
        axes.set_xlabel("step")
    handles = [Line2D([], [], color=colour, label=label) for label, colour in PLACEMENTS.values()]
    handles += [
        Line2D([], [], color="#555555", ls=line, label=f"warm-up {warmup} steps" if warmup else "no warm-up")
        for warmup, line in zip(warmups, ("-", "--", ":"), strict=False)
    ]
    handles.append(Line2D([], [], color="#555555", lw=0.7, ls=":", label="token frequencies alone"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.0)
    return figure


def _count_failures(axes: Axes, part: pd.DataFrame) -> None:
    runs = part.drop_duplicates(["placement", "warmup", "seed"])
    lines = []
    for name, (label, _) in PLACEMENTS.items():
        of = runs[runs.placement == name]
        for status in ("diverged", "stuck"):
            if number := (of.status == status).sum():
                lines.append(f"{label}: {number} of {len(of)} {status}")
    axes.text(
        0.97,
        0.95,
        "\n".join(lines),
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=6,
        color="#333333",
    )


def draw_placement_gradients(gradients: pd.DataFrame) -> Figure:
    """Gradient norm of every layer, at initialisation, half-way and at the end, without warm-up."""
    rate = gradients.learning_rate.min()
    table = gradients[(gradients.warmup == gradients.warmup.min()) & (gradients.learning_rate == rate)]
    depths = sorted(table.depth.unique())
    logged = np.sort(table.step.unique())
    steps = [logged[0], logged[len(logged) // 2], logged[-1]]
    figure, grid = plt.subplots(
        len(steps), len(depths), figsize=(style.PAGE, 4.6), sharey=True, sharex="col", squeeze=False
    )
    for row, step in zip(grid, steps, strict=True):
        for axes, depth in zip(row, depths, strict=True):
            for name, (_, colour) in PLACEMENTS.items():
                part = table[(table.step == step) & (table.depth == depth) & (table.placement == name)]
                by_layer = part[np.isfinite(part.gradient_norm)].groupby("layer").gradient_norm
                middle = by_layer.apply(lambda values: np.exp(np.log(values).mean()))
                axes.fill_between(middle.index, by_layer.min(), by_layer.max(), color=colour, alpha=0.2, lw=0)
                axes.plot(middle.index, middle, "o-", color=colour, ms=2.5 if depth < 20 else 1.5, lw=1.1)
            axes.set(yscale="log", xlim=(0.5, depth + 0.5))
            axes.set_title(f"{depth} layers" if step == steps[0] else "")
        row[0].set_ylabel(("at initialisation" if step == 0 else f"step {step}") + "\ngradient norm")
    for axes, depth in zip(grid[-1], depths, strict=True):
        axes.set_xlabel("layer")
        axes.set_xticks(sorted({1, max(1, depth // 2), depth}))
    handles = [
        Line2D([], [], color=colour, marker="o", ms=3, label=label) for label, colour in PLACEMENTS.values()
    ]
    title = f"geometric mean and range over {table.seed.nunique()} seeds; rate {rate:g}, no warm-up"
    figure.legend(handles=handles, loc="outside lower center", ncols=2, title=title, title_fontsize=7)
    return figure


# BatchNorm


def draw_batch_dependence(table: pd.DataFrame) -> Figure:
    """The change of a token's output: other sequences, training or evaluation mode, padding."""
    figure, axes = plt.subplots(1, 3, figsize=(style.PAGE, 2.4))
    norms = {"layernorm": ("LayerNorm", BLUE), "batchnorm": ("BatchNorm", VERMILION)}
    panels = {
        "others": ("batch_size", "other sequences drawn anew", "sequences in the batch"),
        "mode": ("batch_size", "training against evaluation", "sequences in the batch"),
        "padding": ("padding", "padding after sequences", "share of padding"),
    }
    for panel, (effect, (x, title, label)) in zip(axes, panels.items(), strict=True):
        part = table[table.effect == effect]
        if effect == "padding":  # one value for each seed, over batch sizes: they hardly matter
            part = part.groupby(["norm", "padding", "seed"], as_index=False).change.mean()
        for norm, (_, colour) in norms.items():
            groups = part[part.norm == norm].groupby(x).change
            low, high = np.array([t_interval(values) for _, values in groups]).T
            panel.fill_between(list(groups.groups), low, high, color=colour, alpha=0.2, lw=0)
            panel.plot(groups.mean(), "o-", color=colour, ms=3)
        panel.set(title=title, xlabel=label)
        if x == "batch_size":
            panel.set_xscale("log")
            _plain_ticks(panel, sorted(part.batch_size.unique()))
            panel.tick_params(axis="x", labelsize=6)
        else:
            panel.xaxis.set_major_formatter(PercentFormatter(1))
            panel.set_xticks(sorted(part.padding.unique()))
    axes[0].set_ylabel("change of a token's output\n(its own size is 1)")
    axes[0].legend(
        handles=[Line2D([], [], color=c, marker="o", ms=3, label=label) for label, c in norms.values()]
    )
    return figure


# Attention scores


def draw_score_scale(table: pd.DataFrame) -> Figure:
    """Spread of the scores, entropy of attention and the gradient left, with and without the division."""
    figure, axes = plt.subplots(1, 3, figsize=(style.PAGE, 2.7))
    columns = {
        "score_std": "standard deviation of scores",
        "entropy_share": "entropy over its maximum ln n",
        "gradient": "trace of the softmax's Jacobian",
    }
    kinds = {False: ("not divided", VERMILION), True: ("divided by $\\sqrt{d_k}$", BLUE)}
    normal = table[table.source == "normal"]
    trained = table[~table.source.str.startswith("normal")]
    markers = dict(zip(sorted(trained.source.unique()), "s^Dv", strict=False))
    for panel, (column, title) in zip(axes, columns.items(), strict=True):
        for divided, (_, colour) in kinds.items():
            groups = normal[normal.divided == divided].groupby("d_k")[column]
            low, high = np.array([t_interval(values) for _, values in groups]).T
            panel.fill_between(list(groups.groups), low, high, color=colour, alpha=0.2, lw=0)
            panel.plot(groups.mean(), "o-", color=colour, ms=3)
            for source, marker in markers.items():
                part = trained[(trained.source == source) & (trained.divided == divided)]
                heads = part.groupby(["variant", "seed", "layer", "head"], dropna=False)[
                    ["d_k", column]
                ].mean()
                shift = 0.93 if divided else 1.07
                panel.plot(
                    heads.d_k * shift, heads[column], marker, mfc="none", mec=colour, ms=3, mew=0.5, alpha=0.6
                )
        panel.set(xscale="log", title=title, xlabel="$d_k$")
        _plain_ticks(
            panel,
            [d for d in sorted(table.d_k.unique()) if np.log2(d) % 2 == 1 or d in (4, 16, 64, 256, 1024)][
                ::2
            ],
        )
        panel.set_xticks([d for d in (2, 8, 32, 128, 512) if table.d_k.min() <= d <= table.d_k.max()])
    d_k = np.array(sorted(normal.d_k.unique()))
    axes[0].plot(d_k, np.sqrt(d_k), color="#333333", lw=0.7, ls=":")
    axes[0].set_yscale("log")
    axes[1].set_ylim(0, 1.02)
    axes[2].set_ylim(0, 1.02)
    handles = [
        Line2D([], [], color=colour, marker="o", ms=3, label=label) for label, colour in kinds.values()
    ]
    handles.append(Line2D([], [], color="#333333", lw=0.7, ls=":", label="$\\sqrt{d_k}$"))
    names = {"majority": "trained: majority task", "language_model": "trained: language model"}
    handles += [
        Line2D([], [], ls="", marker=marker, mfc="none", mec="#555555", ms=3, label=names.get(source, source))
        for source, marker in markers.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.0)
    return figure


# Worked numbers


def draw_worked_numbers(table: pd.DataFrame) -> Figure:
    """How many numbers of each example are right; and those that are not, as written and recomputed."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(style.PAGE, 5.6), width_ratios=[0.8, 1])
    order = table.groupby("example").line.min().sort_values().index
    counts = table.groupby(["example", "verdict"]).size().unstack(fill_value=0).reindex(order)
    start = np.zeros(len(order))
    labels = {
        "right": "right, as rounded there",
        "follows": "follows from an earlier\nrounding or mistake",
        "not right": "not right",
    }
    for verdict, colour in VERDICTS.items():
        width = counts.get(verdict, pd.Series(0, index=order)).to_numpy()
        left.barh(range(len(order)), width, left=start, color=colour, height=0.7, label=labels[verdict])
        start += width
    left.set(yticks=range(len(order)), yticklabels=order, xlabel="numbers")
    left.invert_yaxis()
    left.tick_params(axis="y", labelsize=6, length=0)
    left.legend(loc="lower right", fontsize=6)

    wrong = table[table.verdict == "not right"]
    stated = wrong.stated.astype(float)
    rows = np.arange(len(wrong))
    right.hlines(rows, stated, wrong.recomputed, color="#BBBBBB", lw=0.8)
    right.plot(stated, rows, "o", mfc="white", mec=VERMILION, ms=3.5, label="as written")
    right.plot(wrong.recomputed, rows, "o", color="#333333", ms=3, label="recomputed")
    names = wrong.quantity.str.replace("query, key and value", "query")
    right.set(
        yticks=rows,
        yticklabels=[f"{name}, line {line}" for name, line in zip(names, wrong.line, strict=True)],
    )
    right.set_xscale("symlog", linthresh=1)
    ticks = [-1, 0, 1, 3, 10]
    right.set_xticks(ticks, [str(tick) for tick in ticks])
    right.xaxis.set_minor_locator(NullLocator())
    right.invert_yaxis()
    right.tick_params(axis="y", labelsize=5.5, length=0)
    right.set_title("the numbers that are not right")
    right.legend(loc="upper left", fontsize=6)
    return figure
