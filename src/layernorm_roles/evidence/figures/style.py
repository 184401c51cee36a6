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
    """Set the look of all figures that are drawn afterwards, whatever a user's matplotlibrc says."""
    matplotlib.rcdefaults()
    options = {"font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.frameon": False}
    options |= {"xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "legend.title_fontsize": 7}
    options |= {"axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6}
    options |= {"xtick.major.width": 0.6, "ytick.major.width": 0.6, "lines.linewidth": 1.4}
    options |= {"figure.constrained_layout.use": True, "savefig.dpi": 220, "pdf.fonttype": 42}
    sns.set_theme(context="paper", style="ticks", font="DejaVu Sans", rc=options)


# Looks


def looks_of(variants: Iterable[str], **more: Any) -> dict[str, dict[str, Any]]:
    """Return label, color and line style (ls) of each variant, in the order of legends, with the options `more`.

    Variants that are not built in get spare colours in turn.
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
    """Return a copy of `looks` with a `shift` in each, by which `line` multiplies x: side by side on a log axis."""
    shifts = (factor ** (number - (len(looks) - 1) / 2) for number in range(len(looks)))
    return {value: {**looks[value], "shift": shift} for value, shift in zip(looks, shifts, strict=True)}


def number_of(numbers: Collection[SupportsInt], what: str) -> str:
    """Return "1 seed", "3 seeds" or, for different `numbers`, "2 to 5 seeds", where `what` is "seed"."""
    few, most = (int(end(numbers)) for end in (min, max))
    return f"{few:,} to {most:,} {what}s" if few < most else f"{most:,} {what}{'' if most == 1 else 's'}"


# Means with their spread


def means(table: pd.DataFrame, x: str, y: str, geometric: bool = False, whole: bool = False) -> pd.DataFrame:
    """Return the mean of column `y` and its 95 % interval (columns mean, low, high) for each value of `x` (index).

    The interval is NaN for fewer than 3 values; with `whole` it is the range. With `geometric` both are of logarithms.
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
    spread: Literal["band", "range", "bars", "seeds", "none"] = "band",
    geometric: bool = False,
    shift: float = 1.0,
    **look,
) -> pd.DataFrame:
    """Draw the mean of column `y` against column `x` with its spread; return the table from the function `means`.

    The spread "range" is a band from the smallest to the largest value; "seeds" is a band from 5 seeds on, else a thin
    line for each seed. All x are multiplied by `shift`. `look` has options of `Axes.plot`.
    """
    curve = means(table, x, y, geometric, whole=spread == "range")
    curve.index *= shift
    if spread == "seeds" and table.seed.nunique() < LEAST_FOR_BAND:
        seeds = table.pivot(index=x, columns="seed", values=y)
        axes.plot(seeds.index * shift, seeds, **SINGLE | dict(color=look["color"]))
    elif spread == "bars":
        some = curve[np.isfinite(curve.low)]
        axes.vlines(some.index, some.low, some.high, color=look["color"], linewidth=1.0, alpha=0.6)
    elif spread != "none":
        axes.fill_between(curve.index, curve.low, curve.high, color=look["color"], alpha=0.2, linewidth=0)
    axes.plot(curve.index, curve["mean"], **look)
    return curve


def lines(axes: Axes, table: pd.DataFrame, hue: str, looks: Looks, x: str, y: str, **options) -> None:
    """Draw a line, with the function `line`, for each value of column `hue` that has a look in `looks`."""
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
    """Show accuracies (0..1) in per cent on y axes logarithmic in the error, with limits that fit all `panels`.

    Halving the error, 1 - accuracy, is the same length everywhere; errors below 1e-4 are drawn as 1e-4.
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


def logarithmic(axes: Axes) -> None:
    """Make the y axis of `axes` logarithmic, with plain numbers and limits that fit all lines drawn so far."""
    there = heights(axes)
    there = there[there > 0]
    axes.set_yscale("log")
    if there.max() < 200 * there.min():
        axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 3, 5])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0.9 * there.min(), 1.1 * there.max())


def ticks_at(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Put the ticks of a logarithmic x axis at `values`, written as plain numbers, and remove all other ticks."""
    axes.set_xticks(sorted(set(values)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def rates(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Make the x axis a logarithmic axis of learning rates, with a label, and ticks at `values`, such as .001."""
    axes.set(xscale="log", xlabel="learning rate at the first step")
    ticks_at(axes, values)
    axes.xaxis.set_major_formatter(lambda rate, _: f"{rate:g}".replace("0.", ".", 1))
    axes.tick_params(axis="x", labelsize=6.5)


# Legends


def counted(looks: Looks, runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return legend entries for the variants in `runs`, whose labels give the number of seeds, such as ", 3 seeds".

    Labels have the range of the number if settings such as the width differ in it.
    """
    settings = runs.columns.intersection(SETTINGS, sort=False)
    seeds = runs.groupby(["variant", *settings]).seed.nunique()
    numbers = {name: number_of(seeds.loc[[name]], "seed") for name in looks if name in seeds.index}
    return [{**looks[name], "label": f"{looks[name]['label']}, {seeds}"} for name, seeds in numbers.items()]


def legend_below(
    figure: FigureBase, looks: Iterable[Look], columns: int, further: Iterable[Look] = (), title: str = ""
) -> None:
    """Put one legend below all axes of the figure, with at most `columns` columns, fewer if they would be too wide.

    Each of `looks` has an entry. SINGLE, for single runs, and each of `further` follow if the axes have their label.
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


def name_ends(axes: Axes, ends: Iterable[tuple[float, Look]]) -> None:
    """Write the labels of lines at the right of the axes, beside the heights of their ends, but not on each other.

    `ends` has the height of each line at its end, in the data's units, and its look. The axes' limits must be final.
    """
    gap = 10 / 72 / (axes.get_position().height * axes.figure.get_figheight())
    in_axes = (axes.transData + axes.transAxes.inverted()).transform
    ordered = sorted(((in_axes((1, y))[1], look) for y, look in ends), key=lambda end: end[0])
    places = np.clip([height for height, _ in ordered], 0, 1)
    steps = gap * np.arange(len(places))
    places = np.maximum.accumulate(places - steps) + steps  # upwards, as far as they need
    places = np.minimum(places, 1 + steps - steps[-1])
    for place, (_, look) in zip(places, ordered, strict=True):
        options = dict(xycoords="axes fraction", ha="left", va="center", fontsize=7)
        axes.annotate(look["label"], (1.02, place), color=look["color"], **options)


# Tables and files


def differences(runs: pd.DataFrame, base: str, column: str, *index: str) -> pd.DataFrame:
    """Return the values of other variants in `column` minus those of the variant `base`, as a column "difference".

    Rows of two variants are paired if they are equal in the columns `index`; those without a partner are left out.
    """
    wide = runs.pivot(index=[*index], columns="variant", values=column)
    beyond = wide.drop(columns=base).sub(wide[base], axis=0).reset_index()
    return beyond.melt([*index], value_name="difference").dropna()


def png(figure: Figure) -> bytes:
    """Return the figure as the bytes of a PNG file of 256 colours, a third as large as a file in full colour."""
    full, small = BytesIO(), BytesIO()
    figure.savefig(full, format="png", pil_kwargs={"compress_level": 1})
    image = Image.open(full)
    few = image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True, dpi=image.info["dpi"])
    return small.getvalue()


def save(figure: Figure, *paths: str | Path) -> None:
    """Save the figure to each of `paths` (.png or .pdf), and close it; a file appears whole or not at all.

    The files hold no date and no software version, so that equal figures give equal bytes.
    """
    for path in map(Path, paths):
        with files.atomic_write(path) as partial:
            if path.suffix == ".png":
                partial.write_bytes(png(figure))
            else:
                figure.savefig(partial, metadata=dict.fromkeys(("CreationDate", "Producer", "Creator")))
    plt.close(figure)
