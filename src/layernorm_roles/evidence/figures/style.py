"""What all figures share: the theme, means with their spread, legends below the axes, and reproducible files."""

from collections.abc import Collection, Iterable, Mapping
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any, Literal, SupportsFloat, SupportsInt

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator
from PIL import Image

from layernorm_roles import files
from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.legends import LEAST_FOR_INTERVAL, label, legend_order
from layernorm_roles.variants import BUILT_IN, Named

COLUMN, PAGE = 3.35, 6.9
"""Widths of figures in inches: of one column of a printed page, and of the whole text."""

BLUE, ORANGE, GREEN, VERMILION, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7"
"""Colours of Okabe and Ito (2008), which readers with any colour vision can tell apart."""

GREY = "#555555"
"""Colour of legend marks that stand for all variants, and of notes inside the axes."""

SPARE_COLOURS = ("#B8A800", "#117733", "#AA4499", "#88CCEE", "#6699CC", "#999933")
"""Colours of variants that are not built in, in the alphabetical order of their names; after the last the first."""

PAPER_MARK = dict(ls="", marker="D", ms=4.5, mfc="white", mew=1.1)
"""Look of the mark of a value that the paper reports, without `mec`."""

LEAST_FOR_BAND = 5
"""Least number of seeds for which a curve has a band for its interval; that of fewer would hide the other curves."""

SINGLE = dict(label=f"single run, where fewer than {LEAST_FOR_BAND} seeds", lw=0.6, alpha=0.45, color=GREY)
"""Look, in a legend, of the thin line of a single training run, which in the axes has the colour of its variant."""

SETTINGS = ["experiment", "model", "d_model", "base_learning_rate"]
"""Columns that tell runs apart beside variant and seed; runs that are equal in them are repetitions by seed."""

Look = Mapping[str, Any]
"""Options of `Axes.plot` and `Line2D` for one kind of mark or line, its `label` in the legend among them."""

Looks = Mapping[Any, Look]
"""A look, with `color`, for each value of a column such as variant, in the order of the legend."""


def theme() -> None:
    """Set matplotlib's parameters for all figures that are drawn afterwards."""
    options = {"font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.frameon": False}
    options |= {"xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "legend.title_fontsize": 7}
    options |= {"axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6}
    options |= {"xtick.major.width": 0.6, "ytick.major.width": 0.6, "lines.linewidth": 1.4}
    options |= {"figure.constrained_layout.use": True, "savefig.dpi": 220, "pdf.fonttype": 42}
    sns.set_theme(context="paper", style="ticks", font="DejaVu Sans", rc=options)


# Looks


def looks_of(variants: Iterable[str], **more: Any) -> dict[str, dict[str, Any]]:
    """Return the look of each variant (label, color and ls), in the order of the legends.

    The options `more` of a line are added to each look. A variant that is not built in takes the next of SPARE_COLOURS.
    """
    spare, looks = cycle(SPARE_COLOURS), {}
    for name in legend_order(variants):
        variant = BUILT_IN.get(name) or Named(label(name), next(spare), computes="")
        looks[name] = dict(label=variant.label, color=variant.colour, ls=variant.stroke) | more
    return looks


def each(looks: Looks, **more: Any) -> dict[Any, dict[str, Any]]:
    """Return a copy of `looks` with the options `more` added to every look."""
    return {value: {**look, **more} for value, look in looks.items()}


def apart(looks: Looks, factor: float) -> dict[Any, dict[str, Any]]:
    """Return a copy of `looks` in which each has a `shift`, so that lines stand side by side on a logarithmic x axis.

    All x of a line are to be multiplied by its shift, which grows by `factor` from one line to the next.
    """
    shifts = (factor ** (number - (len(looks) - 1) / 2) for number in range(len(looks)))
    return {value: {**looks[value], "shift": shift} for value, shift in zip(looks, shifts, strict=True)}


def number_of(numbers: Collection[SupportsInt], what: str) -> str:
    """Return a text such as "3 seeds", "1 seed" or "2 to 5 seeds", from the smallest to the largest of `numbers`.

    `what` is the noun in the singular.
    """
    few, most = (int(end(numbers)) for end in (min, max))
    return f"{few:,} to {most:,} {what}s" if few < most else f"{most:,} {what}{'' if most == 1 else 's'}"


# Means with their spread


def means(table: pd.DataFrame, x: str, y: str, geometric: bool = False, whole: bool = False) -> pd.DataFrame:
    """Return the mean of column `y` and its interval for each value of column `x`, in the columns mean, low and high.

    The rows that share a value of `x` are the sample, usually one row for each seed. low and high are the ends of
    Student's 95 % interval, NaN for fewer than LEAST_FOR_INTERVAL values, or with `whole` the smallest and largest
    value. With `geometric` the mean is geometric, and the interval is that of the logarithms, transformed back.
    """
    rows = {}
    for value, values in table.groupby(x)[y]:
        values = values.to_numpy(float)
        estimate = Estimate.of(np.log(values)).map(np.exp) if geometric else Estimate.of(values)
        if whole:
            estimate = estimate._replace(low=values.min(), high=values.max())
        elif len(values) < LEAST_FOR_INTERVAL:
            estimate = estimate._replace(low=np.nan, high=np.nan)
        rows[float(value)] = estimate
    return pd.DataFrame.from_dict(rows, orient="index", columns=Estimate._fields, dtype=float)


def line(
    axes: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    spread: Literal["band", "range", "bars", "seeds"] = "band",
    geometric: bool = False,
    shift: float = 1.0,
    **look,
) -> pd.DataFrame:
    """Draw the mean of column `y` against column `x` with its spread; return what is drawn, as `means` does.

    `spread` is a "band" or vertical "bars" for intervals, "range" for a band from the smallest to the largest value, or
    "seeds": a band from LEAST_FOR_BAND seeds on, otherwise a thin line for each seed, for which `table` needs one row
    for each seed and x. All x are multiplied by `shift`. With `geometric` means and intervals are of logarithms. `look`
    has options of `Axes.plot`.
    """
    curve = means(table, x, y, geometric, whole=spread == "range")
    curve.index *= shift
    if spread == "seeds" and table.seed.nunique() < LEAST_FOR_BAND:
        seeds = table.pivot(index=x, columns="seed", values=y)
        axes.plot(seeds.index * shift, seeds, **SINGLE | dict(color=look["color"]))
    elif spread == "bars":
        some = curve[np.isfinite(curve.low)]
        axes.vlines(some.index, some.low, some.high, color=look["color"], linewidth=1.0, alpha=0.6)
    else:
        axes.fill_between(curve.index, curve.low, curve.high, color=look["color"], alpha=0.2, linewidth=0)
    axes.plot(curve.index, curve["mean"], **look)
    return curve


def lines(axes: Axes, table: pd.DataFrame, hue: str, looks: Looks, x: str, y: str, **options) -> None:
    """Draw a `line` for each value of column `hue` that has a look in `looks`.

    `options` are further arguments of the function `line`.
    """
    for value, look in looks.items():
        part = table[table[hue] == value]
        if len(part):
            line(axes, part, x, y, **{**options, **look})


# Axes

ACCURACY = "test accuracy (%),\nlogarithmic in the errors"
"""Label of a y axis on which the function `accuracies` shows accuracies, logarithmic in the errors."""

_PERCENT = np.array([10, 30, 40, 50, 60, 70, 75, 80, 85, 90, 92, 94, 95, 96, 97, 98, 99, 99.5])
"""Where an axis of accuracies may have its ticks."""


def heights(*panels: Axes) -> np.ndarray:
    """Return the finite y values of all lines in `panels` as one array, without those of bars and bands."""
    of_lines = [np.ravel(np.asarray(line.get_ydata(), dtype=float)) for axes in panels for line in axes.lines]
    together = np.concatenate([*of_lines, []])
    return together[np.isfinite(together)]


def accuracies(*panels: Axes) -> None:
    """Make the y axis of `panels` show accuracies (0..1) in per cent, with common limits around their lines.

    The axis is logarithmic in the error, 1 - accuracy: halving it is the same length everywhere. Accuracies of 1 are at
    the top.
    """

    def height(accuracy: np.ndarray) -> np.ndarray:
        return -np.log(np.maximum(1 - accuracy, 1e-4))

    there = height(heights(*panels))
    margin = 0.08 * np.ptp(there) + 0.05
    low, high = there.min() - margin, there.max() + margin
    ticks, last = [], -np.inf
    for tick, at in zip(_PERCENT / 100, height(_PERCENT / 100), strict=True):
        if low <= at <= high and at - last > (high - low) / 9:
            ticks.append(tick)
            last = at
    for axes in panels:
        axes.set_yscale("function", functions=(height, lambda value: 1 - np.exp(-value)))
        axes.set_yticks(ticks, [f"{100 * tick:g}" for tick in ticks])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(*(1 - np.exp(-end) for end in (low, high)))


def logarithmic(*panels: Axes) -> None:
    """Give `panels` a logarithmic y axis with plain numbers, and common limits around all their lines."""
    there = heights(*panels)
    there = there[there > 0]
    for axes in panels:
        axes.set_yscale("log")
        if there.max() < 200 * there.min():
            axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(0.9 * there.min(), 1.1 * there.max())


def ticks_at(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Put the ticks of a logarithmic x axis at the different `values`, as plain numbers, and no other ticks."""
    axes.set_xticks(sorted(set(values)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def rates(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Make the x axis logarithmic, with ticks at the learning rates `values`, written like .001."""
    axes.set(xscale="log", xlabel="learning rate at the first step")
    ticks_at(axes, values)
    axes.xaxis.set_major_formatter(lambda rate, _: f"{rate:g}".replace("0.", ".", 1))
    axes.tick_params(axis="x", labelsize=6.5)


# Legends


def counted(looks: Looks, runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the legend's entries for the variants in `runs`: their looks, with the number of seeds in each label.

    If the number differs between settings (the columns SETTINGS), a label has the smallest and the largest.
    """
    settings = runs.columns.intersection(SETTINGS, sort=False)
    seeds = runs.groupby(["variant", *settings]).seed.nunique()
    numbers = {name: number_of(seeds.loc[[name]], "seed") for name in looks if name in seeds.index}
    return [{**looks[name], "label": f"{looks[name]['label']}, {seeds}"} for name, seeds in numbers.items()]


def legend_below(
    figure: FigureBase, looks: Iterable[Look], columns: int, further: Iterable[Look] = (), title: str = ""
) -> None:
    """Put one legend below all axes of the figure, with at most `columns` columns, as many as its width has room for.

    It has an entry for each of `looks`. SINGLE and each of `further` follow if something in the axes has their label.
    """
    drawn = {artist.get_label() for axes in figure.axes for artist in axes.get_children()}
    entries = [*looks, *(look for look in (SINGLE, *further) if look["label"] in drawn)]
    handles = [Line2D([], [], **look) for look in entries]
    below = dict(loc="outside lower center", columnspacing=1.2, handletextpad=0.5)
    for number in range(min(columns, len(handles)), 0, -1):
        legend = figure.legend(handles=handles, ncols=number, title=title, **below)
        if number == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


# Tables and files


def differences(runs: pd.DataFrame, base: str, column: str, *index: str) -> pd.DataFrame:
    """Return `column` of each variant minus `column` of the variant `base`, as a column "difference".

    Rows with equal values in the columns `index` are subtracted; the result has these columns and "variant" as well.
    Rows that only one of two variants has are left out.
    """
    wide = runs.pivot(index=[*index], columns="variant", values=column)
    beyond = wide.drop(columns=base).sub(wide[base], axis=0).reset_index()
    return beyond.melt([*index], value_name="difference").dropna()


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file of 256 colours, which has a third of the bytes of one in full colour."""
    full, small = BytesIO(), BytesIO()
    figure.savefig(full, format="png", pil_kwargs={"compress_level": 1})
    image = Image.open(full)
    few = image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True, dpi=image.info["dpi"])
    return small.getvalue()


def save(figure: Figure, *paths: str | Path) -> None:
    """Save the figure to every path (.png or .pdf), complete or not at all, and close it.

    The files hold no date and no version, so that drawing from equal tables gives equal bytes.
    """
    for path in map(Path, paths):
        with files.atomic_write(path) as partial:
            if path.suffix == ".png":
                partial.write_bytes(png(figure))
            else:
                figure.savefig(partial, metadata=dict.fromkeys(("CreationDate", "Producer", "Creator")))
    plt.close(figure)
