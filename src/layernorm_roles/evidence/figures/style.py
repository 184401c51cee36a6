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
    """Set fonts, line widths and other matplotlib parameters (rcParams) for all figures that are drawn afterwards."""
    options = {"font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.frameon": False}
    options |= {"xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7, "legend.title_fontsize": 7}
    options |= {"axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6}
    options |= {"xtick.major.width": 0.6, "ytick.major.width": 0.6, "lines.linewidth": 1.4}
    options |= {"figure.constrained_layout.use": True, "savefig.dpi": 220, "pdf.fonttype": 42}
    sns.set_theme(context="paper", style="ticks", font="DejaVu Sans", rc=options)


# Looks


def looks_of(variants: Iterable[str], **more: Any) -> dict[str, dict[str, Any]]:
    """Return label, color and line style (ls) of each variant, as a dictionary in the order of the legends.

    `more` are options of `Axes.plot` to be added to each. Variants that are not built in get spare colours in turn.
    """
    spare, looks = cycle(SPARE_COLOURS), {}
    for name in legend_order(variants):
        variant = BUILT_IN.get(name) or Named(label(name), next(spare), computes="")
        looks[name] = dict(label=variant.label, color=variant.colour, ls=variant.stroke) | more
    return looks


def each(looks: Looks, **more: Any) -> dict[Any, dict[str, Any]]:
    """Return a copy of `looks` with the options `more` added to every look.

    A look is a dictionary of options of `Axes.plot`, such as color; `looks` has one for each variant or other value.
    """
    return {value: {**look, **more} for value, look in looks.items()}


def apart(looks: Looks, factor: float) -> dict[Any, dict[str, Any]]:
    """Return a copy of `looks`, options of lines, with a `shift` in each that sets them side by side on a log x axis.

    The function `line` multiplies x by the shift; from each line to the next the shift grows by the factor `factor`.
    """
    shifts = (factor ** (number - (len(looks) - 1) / 2) for number in range(len(looks)))
    return {value: {**looks[value], "shift": shift} for value, shift in zip(looks, shifts, strict=True)}


def number_of(numbers: Collection[SupportsInt], what: str) -> str:
    """Return a text such as "1 seed", "3 seeds" or "2 to 5 seeds", with the smallest and the largest of `numbers`.

    `what` is the noun in the singular. `numbers` must not be empty.
    """
    few, most = (int(end(numbers)) for end in (min, max))
    return f"{few:,} to {most:,} {what}s" if few < most else f"{most:,} {what}{'' if most == 1 else 's'}"


# Means with their spread


def means(table: pd.DataFrame, x: str, y: str, geometric: bool = False, whole: bool = False) -> pd.DataFrame:
    """Return the mean of column `y` and its interval (columns mean, low, high) for each value of column `x` (index).

    Rows of `table` with equal x are a sample, usually with one row for each seed. low and high are the ends of
    Student's 95 % interval, NaN for fewer than 3 values, or with `whole` the smallest and largest value. With
    `geometric` the mean is geometric; its interval is computed on logarithms and transformed back.
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

    `spread` is "band" or (vertical) "bars" for 95 % intervals, "none", or "range" for a band from the smallest to the
    largest value. "seeds" is a band if there are 5 or more seeds, otherwise a thin line for each seed; `table` then has
    to have one row for each seed and x. All x, also those returned, are multiplied by `shift`. With `geometric`, means
    and intervals are of logarithms. `look` has options of `Axes.plot`, color among them.
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
    """Draw a line, with the function `line`, for each value of column `hue` that has a look in `looks`.

    A look is a dictionary of options of `Axes.plot`, color among them. `options` are further arguments of `line`.
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
    """Make the y axes of `panels` show accuracies (0..1) in per cent, on a scale that is logarithmic in the error.

    Halving the error, 1 - accuracy, is the same length everywhere; errors below 1e-4 are drawn as 1e-4. All panels get
    the same limits, which fit the lines that are already in them.
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
    """Make the y axis of `axes` logarithmic, with plain numbers and limits that fit all lines drawn so far.

    At least one line must have a value above 0.
    """
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

    `looks` has the lines' options. Labels have the range of the number if settings such as the width differ in it.
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


# Tables and files


def differences(runs: pd.DataFrame, base: str, column: str, *index: str) -> pd.DataFrame:
    """Return the values of other variants in `column` minus those of the variant `base`, as a column "difference".

    Rows of two variants are paired if they are equal in the columns `index`, such as step and seed. The result has a
    row for each pair, with the columns `index`, variant and difference. Rows without a partner are left out.
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
