"""The worked numbers of the notes, as written and recomputed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from layernorm_roles.evidence.figures import style

VERDICTS = {
    "right": ("right", "#009E73"),
    "rounding": ("off by rounding alone", "#56B4E9"),
    "hedged": ("off, hedged in words", "#CC79A7"),
    "carried": ("carried from a mistake", "#E69F00"),
    "wrong": ("wrong", "#D55E00"),
}
"""Label and colour of each verdict in the table."""

TICKS = (-100, -50, 0, 50, 100, 10_000)
"""Ticks of the axis of errors in per cent, linear between -100 and 100 and logarithmic beyond."""


def worked_numbers(table: pd.DataFrame) -> Figure:
    """Draw how many numbers of each example have which verdict; and how far off the wrong and the hedged ones are."""
    wrong = table[table.verdict.isin(["wrong", "hedged"])]
    rows = max(len(wrong), table.example.nunique())
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(style.PAGE, 1.4 + 0.125 * rows), width_ratios=[0.7, 1]
    )
    _counts(left, table)
    _wrong(right, wrong)
    bar = {"ls": "", "marker": "s", "ms": 6}
    handles = [style.mark(label, color=colour, **bar) for label, colour in VERDICTS.values()]
    style.legend_below(figure, handles, columns=5)
    return figure


def _counts(axes: Axes, table: pd.DataFrame) -> None:
    """Draw a bar for each example in the order of the notes, made of the numbers with each verdict."""
    order = table.groupby("example").line.min().sort_values(kind="stable").index
    counts = table.groupby(["example", "verdict"]).size().unstack(fill_value=0).reindex(order)
    start = np.zeros(len(order))
    for verdict, (_, colour) in VERDICTS.items():
        width = counts.get(verdict, pd.Series(0, index=order)).to_numpy()
        axes.barh(range(len(order)), width, left=start, color=colour, height=0.7)
        start += width
    axes.set(yticks=range(len(order)), yticklabels=order, xlabel="numbers", title="numbers of each example")
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=6, length=0)


def _wrong(axes: Axes, wrong: pd.DataFrame) -> None:
    """Draw by how many per cent each number of `wrong` differs from the recomputed one, and write both beside it."""
    rows = np.arange(len(wrong))
    with np.errstate(divide="ignore"):
        error = 100 * (wrong.stated.astype(float) / wrong.recomputed - 1)
    colours = [VERDICTS[verdict][1] for verdict in wrong.verdict]
    axes.hlines(rows, 0, error, color=colours, lw=0.8)
    axes.scatter(error, rows, color=colours, s=12, zorder=3)
    axes.axvline(0, color=style.GREY, lw=0.6)
    names = [
        f"{row.quantity.replace('query, key and value', 'query')}, line {row.line}: "
        f"{row.stated} for {row.recomputed:.3g}".replace("-", "−")
        for row in wrong.itertuples()
    ]
    axes.set(yticks=rows, yticklabels=names, title="the wrong and the hedged numbers")
    axes.set_xlabel("error, % of the recomputed")
    axes.set_xscale("symlog", linthresh=100, linscale=2.5)
    finite = error[np.isfinite(error)]
    low, high = min([*finite, -100]), max([*finite, 100])
    axes.set_xlim(1.2 * low, 1.8 * high)
    ticks = [tick for tick in TICKS if low <= tick <= 1.8 * high]
    axes.set_xticks(ticks, [f"{tick:+,}".replace("-", "−") if tick else "0" for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.margins(y=0.02)
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=5.5, length=0)
    axes.tick_params(axis="x", labelsize=6)
