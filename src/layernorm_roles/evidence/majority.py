"""Figures 1a, 1b, 2a, 2b, 3 and the table of convergence, from majority_metrics and majority_vectors."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from scipy.integrate import quad

from layernorm_roles.evidence import style
from layernorm_roles.evidence.paper import reported
from layernorm_roles.evidence.statistics import bootstrap_interval, t_interval

PAPER_VARIANTS = ("layernorm", "scale_released")
PAPER_LAST_STEP = 6000
"""Where the paper's Figures 2a and 3 end, about."""

Y_LABELS = {
    "train_loss": "training loss (nats per token)",
    "test_loss": "test loss (nats per token)",
    "test_accuracy": "test accuracy (share of tokens)",
    "query_angle_mean": "mean query angle to ones vector",
}


def random_angle(dim: int) -> float:
    """Mean angle, folded to 0..90 degrees, of a uniformly random direction to a fixed one; 72.6 for dim 8.

    The angle's density on the sphere is proportional to sin(angle) ** (dim - 2).
    """
    whole = quad(lambda angle: np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    first = quad(lambda angle: angle * np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    return np.degrees(first / whole)


def draw(name: str, metrics: pd.DataFrame, vectors: pd.DataFrame) -> Figure:
    """The figure called `name`: 1a, 1b, 2a, 2b, 3, 1_all, 2a_all, 2b_all, 3_all, 2_uniform."""
    d8 = metrics[metrics.experiment == "d8"]
    paper = d8[d8.variant.isin(PAPER_VARIANTS)]
    d3 = vectors[vectors.experiment == "d3"]
    dim = len(vectors.vector[vectors.experiment != "d3"].iloc[0])
    match name:
        case "1a":
            return keys_and_queries(d3[d3.variant == "scale_released"])
        case "1b":
            return keys_and_queries(d3[d3.variant == "layernorm"])
        case "1_all":
            return keys_and_queries(d3)
        case "2a":
            return curves(paper[paper.step <= PAPER_LAST_STEP], "train_loss")
        case "2b":
            return curves(paper, "query_angle_mean", dim=dim)
        case "3":
            return curves(paper[paper.step <= PAPER_LAST_STEP], "test_accuracy")
        case "2a_all":
            return curves(d8, "train_loss", log=True)
        case "2b_all":
            return curves(d8, "query_angle_mean", dim=dim)
        case "3_all":
            return curves(d8, "test_accuracy")
        case "2_uniform":
            return samplings(metrics, dim)
    raise ValueError(f"unknown figure {name!r}")


def curves(metrics: pd.DataFrame, column: str, log: bool = False, dim: int = 0) -> Figure:
    """Mean over seeds against steps, a line a variant; the paper's numbers as diamonds.

    With at least `ENOUGH_SEEDS` seeds a band shows the mean's 95 % interval, with fewer thin lines show the runs.
    """
    if metrics.empty:
        return style.empty()
    few = metrics.variant.nunique() <= 2
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.5) if few else (style.PAGE, 3.0))
    _lines(axes, metrics, column)
    marked = _mark_paper(axes, metrics, column)
    _legend(axes, metrics, marked, beside=not few, column=column)
    _scales(axes, column, log)
    if dim:
        _mark_random(axes, dim)
    return figure


def samplings(metrics: pd.DataFrame, dim: int) -> Figure:
    """Loss and angle under the released sampling and split, and under uniform partitions with disjoint splits."""
    uniform = metrics[metrics.experiment == "d8_uniform"]
    released = metrics[
        (metrics.experiment == "d8")
        & metrics.variant.isin(uniform.variant.unique())
        & (metrics.step <= uniform.step.max())
    ]
    if uniform.empty or released.empty:
        return style.empty()
    figure, grid = plt.subplots(2, 2, figsize=(style.PAGE, 4.4), sharex=True, sharey="row")
    panels = {"released: depth-first walk, split by rows": released, "uniform, split by partitions": uniform}
    for axes, (title, part) in zip(grid.T, panels.items(), strict=True):
        _lines(axes[0], part, "test_loss")
        _lines(axes[1], part, "query_angle_mean")
        axes[0].set_title(title)
        _scales(axes[0], "test_loss", log=True)
        _scales(axes[1], "query_angle_mean")
        _mark_random(axes[1], dim)
        axes[0].set_xlabel("")
    for axes in grid[:, 1]:
        axes.set_ylabel("")
    _legend(grid[0, 1], uniform, marked=False)
    return figure


ENOUGH_SEEDS = 5
"""Of so many a mean has an interval worth drawing; that of three would cover the figure."""


def _lines(axes: Axes, metrics: pd.DataFrame, column: str) -> None:
    look = {
        "x": "step",
        "y": column,
        "hue": "variant",
        "hue_order": style.order(metrics.variant),
        "palette": style.palette(metrics.variant),
        "legend": False,
        "ax": axes,
    }
    many = metrics.groupby("variant").seed.transform("nunique") >= ENOUGH_SEEDS
    if not many.all():
        sns.lineplot(metrics[~many], **look, units="seed", estimator=None, lw=0.6, alpha=0.45)
        sns.lineplot(metrics[~many], **look, errorbar=None)
    if many.any():
        sns.lineplot(metrics[many], **look, errorbar=t_interval, err_kws={"alpha": 0.2, "linewidth": 0})
    axes.set(xlabel="step", xlim=(0, max(metrics.step.max(), 1)))
    axes.xaxis.set_major_locator(MaxNLocator(5))


def _mark_paper(axes: Axes, metrics: pd.DataFrame, column: str) -> bool:
    """The paper's values where `metrics` has the variant and the step; True if there were any."""
    marked = False
    for variant in PAPER_VARIANTS:
        for step, value in reported()["majority"][variant].get(column, {}).items():
            if variant in set(metrics.variant) and step <= metrics.step.max():
                colour = style.COLOURS[variant]
                axes.plot(step, value, "D", ms=4.5, mfc="white", mec=colour, mew=1.1, zorder=5, clip_on=False)
                marked = True
    return marked


def _legend(axes: Axes, metrics: pd.DataFrame, marked: bool, beside: bool = False, column: str = "") -> None:
    colours = style.palette(metrics.variant)
    seeds = metrics.groupby("variant").seed.nunique()
    handles = [
        Line2D([], [], color=colours[variant], label=f"{style.label(variant)} ({_seeds(seeds[variant])})")
        for variant in style.order(metrics.variant)
    ]
    if marked:
        grey = "#555555"
        handles.append(
            Line2D([], [], ls="", marker="D", ms=4.5, mfc="white", mec=grey, label="paper, read off")
        )
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": "best"}
    if column == "query_angle_mean" and not beside:
        place = {"loc": "center right", "bbox_to_anchor": (1.0, 0.58)}  # between the curves, off their bands
    axes.legend(handles=handles, **place)


def _seeds(number: int) -> str:
    return f"{number} seeds" if number >= ENOUGH_SEEDS else f"{number} seeds, thin: each"


def _scales(axes: Axes, column: str, log: bool = False) -> None:
    axes.set_ylabel(Y_LABELS[column])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    if column == "query_angle_mean":
        axes.set(ylim=(0, 90), yticks=range(0, 91, 15))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda angle, _: f"{angle:.0f}°"))
    elif log:
        axes.set_yscale("log")
        axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5])
        drawn = [line.get_ydata() for line in axes.lines]
        axes.set_ylim(0.9 * min(y.min() for y in drawn), 1.1 * max(y.max() for y in drawn))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda loss, _: f"{loss:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif column == "test_accuracy":
        axes.set_ylim(top=1.0)
    else:
        axes.set_ylim(0, 2.5)


def _mark_random(axes: Axes, dim: int) -> None:
    angle = random_angle(dim)
    axes.axhline(angle, color="#999999", lw=0.8, ls=":", zorder=0)
    place = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "top"}
    axes.annotate("random direction", (0.99, angle - 1), fontsize=6, color="#777777", **place)


VIEW = {"elev": 16, "azim": -14}
LIMIT = 1.9


def keys_and_queries(vectors: pd.DataFrame) -> Figure:
    """Keys and queries of all runs in three dimensions, a panel a variant, on the same axes and view.

    Keys outside the box are counted, not drawn.

    Drawn with them: the plane orthogonal to the ones vector, and the ones vector itself. A query outside the box
    is drawn on its line, at the box, hollow: its direction is what matters.
    """
    if vectors.empty:
        return style.empty()
    variants = style.order(vectors.variant)
    panels = len(variants)
    columns = min(panels, 2)
    rows = -(-panels // columns)
    figure = plt.figure(figsize=(style.COLUMN * columns, 3.1 * rows))
    for number, variant in enumerate(variants, start=1):
        axes = figure.add_subplot(rows, columns, number, projection="3d")
        of_variant = vectors[vectors.variant == variant]
        outside = _panel(axes, of_variant, style.palette(variants)[variant])
        facts = f"{of_variant.seed.nunique()} runs" + (f"; {outside} keys outside the box" if outside else "")
        axes.set_title(f"{style.label(variant)} ({facts})", y=0.98)
    grey = "#333333"
    figure.legend(
        handles=[
            Line2D([], [], ls="", marker="o", ms=4.5, color=grey, alpha=0.7, mec="none", label="keys"),
            Line2D([], [], ls="", marker="^", ms=4.5, color="black", label="queries"),
            Line2D([], [], ls="", marker="^", ms=4.5, color="black", mfc="none", label="queries, shortened"),
            Line2D([], [], ls="--", lw=0.9, color=grey, label="ones vector"),
            Line2D(
                [], [], ls="", marker="s", ms=7, color="#BBBBBB", alpha=0.6, label="plane orthogonal to it"
            ),
        ],
        loc="outside lower center",
        ncols=3 if columns == 1 else 5,
        columnspacing=1.0,
        handletextpad=0.4,
    )
    return figure


def _panel(axes, vectors: pd.DataFrame, colour: str) -> int:
    """Draws one variant; the number of keys that are outside the box."""
    angle = np.linspace(0, 2 * np.pi, 90)
    across = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    disc = 1.15 * np.sqrt(3) * (np.cos(angle)[:, None] * across[0] + np.sin(angle)[:, None] * across[1])
    axes.plot_trisurf(*disc.T, color="#BBBBBB", alpha=0.25, linewidth=0, shade=False)
    ones = np.array([[-1], [1]]) * np.full((1, 3), LIMIT * 0.95)
    axes.plot(*ones.T, ls="--", lw=0.9, color="#333333")

    kinds = {kind: np.stack(part.vector.to_numpy()) for kind, part in vectors.groupby("kind")}
    keys, queries = kinds["key"], kinds["query"]
    near = np.abs(keys).max(axis=1) <= LIMIT
    axes.scatter(*keys[near].T, s=13, color=colour, alpha=0.75, linewidth=0, depthshade=False)
    excess = np.abs(queries).max(axis=1) / LIMIT
    inside = excess <= 1
    axes.scatter(*queries[inside].T, s=11, marker="^", color="black", linewidth=0, depthshade=False)
    shortened = (queries / np.maximum(excess, 1)[:, None])[~inside]
    axes.scatter(
        *shortened.T, s=11, marker="^", facecolor="none", edgecolor="black", linewidth=0.5, depthshade=False
    )
    axes.set(
        xlim=(-LIMIT, LIMIT),
        ylim=(-LIMIT, LIMIT),
        zlim=(-LIMIT, LIMIT),
        xticks=[-1, 0, 1],
        yticks=[-1, 0, 1],
        zticks=[-1, 0, 1],
    )
    axes.set_xlabel("$x_1$", labelpad=-8)
    axes.set_ylabel("$x_2$", labelpad=-8)
    axes.set_zlabel("$x_3$", labelpad=-8)
    axes.tick_params(pad=-3, labelsize=6)
    axes.set_box_aspect((1, 1, 1), zoom=0.95)
    axes.view_init(**VIEW)
    return int((~near).sum())


THRESHOLDS = (1.0, 0.5, 0.35, 0.25)


def steps_to_reach(metrics: pd.DataFrame, thresholds: Sequence[float] = THRESHOLDS) -> pd.DataFrame:
    """Steps until the test loss first falls to each threshold, for every experiment, variant and seed.

    Between two rows of the metrics the loss is interpolated linearly; NaN where it is never reached.
    """
    rows = []
    for (experiment, variant, seed), run in metrics.groupby(["experiment", "variant", "seed"]):
        run = run.sort_values("step")
        step, loss = run.step.to_numpy(float), run.test_loss.to_numpy()
        for threshold in thresholds:
            reached = np.flatnonzero(loss <= threshold)
            steps = np.nan
            if len(reached):
                i = reached[0]
                steps = np.interp(-threshold, -loss[i - 1 : i + 1], step[i - 1 : i + 1]) if i else step[0]
            rows.append((experiment, variant, seed, threshold, steps))
    return pd.DataFrame(rows, columns=["experiment", "variant", "seed", "test_loss", "steps"])


def convergence(runs: pd.DataFrame) -> pd.DataFrame:
    """Per variant and threshold: runs that reached it, median steps, and the paired ratio to layernorm.

    The ratio is the geometric mean over the seeds that reached the threshold with both variants; its interval is
    a percentile bootstrap over those seeds.
    """
    wide = runs.pivot(index=["experiment", "test_loss", "seed"], columns="variant", values="steps")
    rows = []
    for (experiment, variant, threshold), part in runs.groupby(["experiment", "variant", "test_loss"]):
        ratios = np.array([])
        if "layernorm" in wide:
            pair = wide.loc[(experiment, threshold)]
            ratios = np.log(pair[variant] / pair["layernorm"]).dropna().to_numpy()
        low, high = np.exp(bootstrap_interval(ratios))
        rows.append(
            {
                "experiment": experiment,
                "variant": variant,
                "test_loss": threshold,
                "runs": len(part),
                "reached": int(part.steps.notna().sum()),
                "median_steps": part.steps.median(),
                "pairs": len(ratios),
                "ratio_to_layernorm": np.exp(ratios.mean()) if len(ratios) else np.nan,
                "ratio_low": low,
                "ratio_high": high,
            }
        )
    table = pd.DataFrame(rows)
    rank = {variant: i for i, variant in enumerate(style.order(table.variant))}
    by = [table.experiment, table.variant.map(rank), -table.test_loss]
    return table.iloc[np.lexsort(by[::-1])].reset_index(drop=True)
