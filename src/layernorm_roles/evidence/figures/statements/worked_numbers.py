"""The worked numbers of the notes, as written and recomputed."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from layernorm_roles.evidence.figures import style

VERDICTS = {
    "right": ("right, as rounded there", "#009E73"),
    "follows": ("follows from an earlier rounding or mistake", "#E69F00"),
    "not right": ("not right", "#D55E00"),
}
"""Label and colour of each verdict in the table."""

TICKS = (-1, 0, 1, 3, 10, 30, 100)
"""Ticks of the axis of values, linear between -1 and 1 and logarithmic outside, as far as the values reach."""


def worked_numbers(table: pd.DataFrame) -> Figure:
    """Draw how many numbers of each example are right; and those that are not, as written and as recomputed."""
    wrong = table[table.verdict == "not right"]
    rows = max(len(wrong), table.example.nunique())
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(style.PAGE, 1.2 + 0.125 * rows), width_ratios=[0.8, 1]
    )
    _counts(left, table)
    _wrong(right, wrong)
    handles = [style.mark(label, color=colour, lw=5) for label, colour in VERDICTS.values()]
    handles.append(
        style.mark("as written", ls="", marker="o", mfc="white", mec=VERDICTS["not right"][1], ms=3.5)
    )
    handles.append(style.mark("recomputed", ls="", marker="o", color="#333333", ms=3))
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
    """Draw the numbers that are not right: as written hollow, recomputed filled, with a line between the two."""
    stated, rows = wrong.stated.astype(float), np.arange(len(wrong))
    axes.hlines(rows, stated, wrong.recomputed, color="#BBBBBB", lw=0.8)
    axes.plot(stated, rows, "o", mfc="white", mec=VERDICTS["not right"][1], ms=3.5)
    axes.plot(wrong.recomputed, rows, "o", color="#333333", ms=3)
    names = [
        f"{quantity.replace('query, key and value', 'query')}, line {line}"
        for quantity, line in zip(wrong.quantity, wrong.line, strict=True)
    ]
    axes.set(yticks=rows, yticklabels=names, title="the numbers that are not right", xlabel="value")
    axes.set_xscale("symlog", linthresh=1)
    low, high = min([*stated, *wrong.recomputed, 0]), max([*stated, *wrong.recomputed, 1])
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(1.3 * low - 0.1, 1.3 * high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=5.5, length=0)
