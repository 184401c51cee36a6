"""What all figures share: the theme, lines with intervals, legends below the axes, and reproducible files."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import SupportsFloat

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    LogFormatterSciNotation,
    NullFormatter,
    NullLocator,
    ScalarFormatter,
    StrMethodFormatter,
)
from PIL import Image

from layernorm_roles import files
from layernorm_roles.evidence.analysis.estimate import Estimate, Values

COLUMN, PAGE = 3.35, 6.9
"""Widths in inches of one column and of the whole text of a page."""

GREY = "#555555"
"""Colour of legend marks that stand for all variants, and of notes inside the axes."""

ENOUGH_SEEDS = 5
"""Number of seeds from which on the interval of a mean is drawn; the interval of fewer would cover the figure."""

PAPER_MARK = {"ls": "", "marker": "D", "ms": 4.5, "mfc": "white", "mew": 1.1}
"""Look of a value that the paper reports; its edge has the colour of what it belongs to."""


def theme() -> None:
    """Set matplotlib's parameters for all figures that are drawn afterwards."""
    sns.set_theme(
        context="paper",
        style="ticks",
        font="DejaVu Sans",
        rc={
            "font.size": 8,
            "axes.labelsize": 8,
            "axes.titlesize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "lines.linewidth": 1.4,
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "savefig.dpi": 220,
            "pdf.fonttype": 42,
            "svg.hashsalt": "layernorm-roles",
        },
    )


def mean_line(axes: Axes, table: pd.DataFrame, x: str, y: str, **look) -> pd.DataFrame:
    """Draw the mean of column `y` at every value of column `x`, with Student's 95 % interval as a band.

    The rows that share a value of `x` are the sample, usually one row a seed. One row alone has no band.
    `look` are options of `Axes.plot`; `color` must be among them. Returns what is drawn: columns mean, low and high,
    one row for each value of `x`.
    """
    groups = table.groupby(x)[y]
    drawn = pd.DataFrame(
        [tuple(Estimate.of(values.to_numpy(float))) for _, values in groups],
        columns=["mean", "low", "high"],
        index=pd.Index(sorted(groups.groups), dtype=float),
        dtype=float,
    )
    axes.fill_between(drawn.index, drawn.low, drawn.high, color=look["color"], alpha=0.2, linewidth=0)
    axes.plot(drawn.index, drawn["mean"], **look)
    return drawn


def seeds_line(axes: Axes, runs: pd.DataFrame, column: str, **look) -> None:
    """Draw the mean over seeds of a column by the column step, with its interval if seeds are enough.

    `runs` has a row for each seed and step. With fewer than ENOUGH_SEEDS, thin lines show the runs instead of a band.
    `look` are options of `Axes.plot`; `color` must be among them.
    """
    if runs.seed.nunique() >= ENOUGH_SEEDS:
        mean_line(axes, runs, "step", column, **look)
        return
    seeds = runs.pivot(index="step", columns="seed", values=column)
    axes.plot(seeds.index, seeds, color=look["color"], lw=0.6, alpha=0.45)
    axes.plot(seeds.index, seeds.mean(axis=1), **look)


def bars(axes: Axes, x: Sequence[float], samples: Sequence[Estimate], colour: str, **look) -> None:
    """Draw means over seeds at `x`, with their 95 % intervals as vertical bars; `look` are options of `Axes.plot`."""
    means, low, high = np.array([tuple(sample) for sample in samples], dtype=float).reshape(-1, 3).T
    axes.vlines(x, low, high, color=colour, linewidth=1.0, alpha=0.6)
    axes.plot(x, means, color=colour, **look)


FEWEST = 3
"""Values behind an interval that is drawn, at least: Student's of two is 25 times as long as their standard error."""


def of_three(values: Values) -> Estimate:
    """Return the mean over seeds with its 95 % interval, or with none if there are fewer than three seeds.

    Student's interval of two values would hide all others.
    """
    estimate = Estimate.of(values)
    return estimate if len(values) >= FEWEST else Estimate(estimate.mean, np.nan, np.nan)


ACCURACY = "test accuracy (%),\nlogarithmic in the errors"
"""The label of an axis that `accuracies` has made."""


def accuracies(*panels: Axes, means: Iterable[float]) -> None:
    """Let the y axis of `panels` show accuracies in per cent, with limits around `means`.

    The axis is logarithmic in the errors: halving their share is everywhere as long. Means of 1 are drawn at the top.
    """
    heights = _height(np.array(list(means)))
    room = 0.08 * np.ptp(heights) + 0.05
    low, high = heights.min() - room, heights.max() + room
    ticks, last = [], -np.inf
    for tick, height in zip(_ACCURACIES, _height(np.array(_ACCURACIES)), strict=True):
        if low <= height <= high and height - last > (high - low) / 9:
            ticks.append(tick)
            last = height
    for axes in panels:
        axes.set_yscale("function", functions=(_height, lambda height: 1 - np.exp(-height)))
        axes.set_yticks(ticks, [f"{100 * tick:g}" for tick in ticks])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(*(1 - np.exp(-end) for end in (low, high)))


_ACCURACIES = (
    0.1,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
    0.92,
    0.94,
    0.95,
    0.96,
    0.97,
    0.98,
    0.99,
    0.995,
    0.998,
)
"""Where an axis of accuracies may have its ticks."""


def _height(accuracies: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(1 - accuracies, 1e-4))


def mark(label: str, **look) -> Line2D:
    """Return a legend entry with the given label; `look` are options of Line2D."""
    return Line2D([], [], label=label, **look)


def single_run() -> Line2D:
    """Return the legend entry of the thin lines that `seeds_line` draws."""
    return mark(f"single run, where fewer than {ENOUGH_SEEDS} seeds", color=GREY, lw=0.6, alpha=0.6)


def seeds_title(numbers: Iterable[int], what: str = "means") -> dict:
    """Options of a legend whose title says over how many seeds the means are: `numbers` are those of all of them."""
    few, most = min(numbers), max(numbers)
    words = f"{few} to {most} seeds" if few < most else f"{most} seed{'s' if most > 1 else ''}"
    return {"title": f"{what} over {words}", "title_fontsize": 7}


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int, **options) -> None:
    """Put one legend under all axes of the figure, in as many of `columns` as its width has room for."""
    for number in range(min(columns, len(handles)), 0, -1):
        legend = figure.legend(
            handles=handles,
            loc="outside lower center",
            ncols=number,
            columnspacing=1.2,
            handletextpad=0.5,
            **options,
        )
        if number == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


power = LogFormatterSciNotation()
"""Writes a number, such as an eps, as matplotlib writes the ticks of a logarithmic axis."""


def thousands(axes: Axes) -> None:
    """Write the ticks of the x axis as whole numbers with a comma between thousands."""
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def ticks_at(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Put the ticks of a logarithmic x axis at `values`, as plain numbers, and no other ticks."""
    axes.set_xticks(list(values))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


COMMONEST = 128
"""How many of a PNG file's 256 colours are the commonest ones of the figure, exactly as they were drawn."""


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG file of at most 256 colours, which has a third of the bytes of one in full colour.

    Areas keep their colours, by which a reader knows them: half of the 256 are the commonest ones. Each of the others
    is the one that is farthest from those before it, so that no smooth edge is far from what was drawn.
    """
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", pil_kwargs={"compress_level": 1})
    image = Image.open(drawn)
    pixels = np.asarray(image.convert("RGB"), dtype=np.int32) @ (1 << 16, 1 << 8, 1)
    codes, inverse, counts = np.unique(pixels, return_inverse=True, return_counts=True)
    tones = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    common = iter(np.argsort(-counts, kind="stable")[:COMMONEST])
    palette, place, far = [], np.zeros(len(tones), np.uint8), np.full(len(tones), np.inf)
    for number in range(256):
        palette.append(tones[next(common, far.argmax())])
        apart = ((tones - palette[-1]) ** 2).sum(axis=1)
        place[apart < far] = number
        far = np.minimum(far, apart)
    colours = Image.fromarray(place[inverse].reshape(pixels.shape))
    colours.putpalette(np.array(palette, dtype=np.uint8).tobytes())
    colours.save(small, "PNG", optimize=True, dpi=image.info["dpi"])
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
