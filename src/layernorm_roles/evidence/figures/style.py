"""What all figures share: the theme, lines with intervals, legends below the axes, and reproducible files."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import SupportsFloat

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator, ScalarFormatter, StrMethodFormatter

from layernorm_roles import files
from layernorm_roles.evidence.analysis.estimate import Estimate

COLUMN, PAGE = 3.35, 6.9
"""Widths in inches of one column and of the whole text of a page."""

GREY = "#555555"
"""Colour of legend marks that stand for all variants, and of notes inside the axes."""


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


def mark(label: str, **look) -> Line2D:
    """Return a legend entry with the given label; `look` are options of Line2D."""
    return Line2D([], [], label=label, **look)


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int, **options) -> None:
    """Put one legend under all axes of the figure, where it covers no data."""
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns,
        columnspacing=1.2,
        handletextpad=0.5,
        **options,
    )


def thousands(axes: Axes) -> None:
    """Write the ticks of the x axis as whole numbers with a comma between thousands."""
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def ticks_at(axes: Axes, values: Iterable[SupportsFloat]) -> None:
    """Put the ticks of a logarithmic x axis at `values`, as plain numbers, and no other ticks."""
    axes.set_xticks(list(values))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())


def save(figure: Figure, *paths: str | Path) -> None:
    """Save the figure to every path (.png or .pdf), complete or not at all, and close it.

    The files hold no date and no version, so that drawing from equal tables gives equal bytes.
    """
    blank = {".pdf": dict.fromkeys(("CreationDate", "Producer", "Creator")), ".png": {"Software": None}}
    for path in map(Path, paths):
        with files.atomic_write(path) as partial:
            figure.savefig(partial, metadata=blank[path.suffix])
    plt.close(figure)
