"""All claims at a glance: effects on one scale, where the source gives a number, and the verdict on each."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from layernorm_roles.evidence.claims.relative import on_common_scale
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.figures import style

LOOKS = {
    Verdict.REPRODUCED: ("#009E73", "o"),
    Verdict.HOLDS: ("#0072B2", "s"),
    Verdict.PARTIAL: ("#E69F00", "D"),
    Verdict.CONFOUNDED: ("#882255", "P"),
    Verdict.REVERSED: ("#CC79A7", "v"),
    Verdict.NOT_REPRODUCED: ("#D55E00", "X"),
    Verdict.DOES_NOT_HOLD: ("#D55E00", "^"),
    Verdict.NOT_TESTED: ("#7F7F7F", "d"),
}
"""Colour and shape of the mark of each verdict."""

ENDS = (-1.0, 2.0)
"""Ends of the axis, in reported effects; what lies beyond is an arrow at the edge."""

OUTSIDE = 5
"""How far from the edge an arrow stands, in points, so that no mark at the edge hides it."""

COLUMNS = 3
"""Columns of the list of claims without a number."""

DAGGER = "†"
"""Marks claims whose test is passed too by models that lack what the claim is about."""


def forest(claims: pd.DataFrame) -> Figure:
    """Draw every claim: its effect relative to the reported one with its interval, and its verdict.

    claims: table claims. Those whose source gives no number, or of which no effect was measured, are listed below with
    their verdicts.
    """
    scaled = on_common_scale(claims)
    drawn, listed = scaled[scaled.effect.notna()], scaled[scaled.effect.isna()]
    rows = -(-len(listed) // COLUMNS)
    heights = [0.2 * max(len(drawn), 1) + 0.25, 0.17 * max(rows, 1)]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(style.PAGE, sum(heights) + 1.3), height_ratios=heights
    )
    _effects(above, drawn)
    _list(below, listed, rows)
    counts = claims.verdict.value_counts()
    handles = [
        style.mark(
            f"{verdict} ({counts[verdict]})", ls="", ms=5, color=LOOKS[verdict][0], marker=LOOKS[verdict][1]
        )
        for verdict in MEANINGS
        if verdict in counts
    ]
    handles.append(style.mark("isolating comparison", ls="", ms=4, marker="o", mfc="white", mec=style.GREY))
    if claims.also_passed_by.notna().any():
        look = {"ls": "", "marker": f"${DAGGER}$", "ms": 5, "color": "black"}
        handles.append(style.mark("passed also without the cause", **look))
    style.legend_below(figure, handles, columns=5)
    return figure


def _effects(axes: Axes, drawn: pd.DataFrame) -> None:
    """Draw the effects with their intervals, the isolating comparison below the source's own."""
    axes.axvline(0, color="black", lw=0.7, zorder=0)
    axes.axvline(1, color="black", lw=0.7, ls="--", zorder=0)
    for y, row in enumerate(drawn.itertuples()):
        colour, marker = LOOKS[Verdict(row.verdict)]
        _one(
            axes,
            y - 0.1,
            (row.effect, row.low, row.high),
            colour,
            marker=marker,
            ms=5,
            mec=colour,
            mfc=colour,
        )
        if not ENDS[0] <= row.effect <= ENDS[1]:
            inwards, side = (1, "left") if row.effect < ENDS[0] else (-1, "right")
            axes.annotate(
                f"{row.effect:.1f}".replace("-", "−").replace("inf", "∞"),
                (float(np.clip(row.effect, *ENDS)), y - 0.1),
                (5 * inwards, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=6,
            )
        isolated = (row.isolated, row.isolated_low, row.isolated_high)
        if np.isfinite(row.isolated):
            _one(axes, y + 0.2, isolated, style.GREY, marker=marker, ms=3.5, mec=colour, mfc="white")
    axes.set(xlim=ENDS, ylim=(len(drawn) - 0.4, -0.6), yticks=range(len(drawn)))
    axes.set_yticklabels([words(row) for row in drawn.itertuples()])
    axes.set_xticks([-1, -0.5, 0, 0.5, 1, 1.5, 2])
    axes.tick_params(axis="y", length=0, pad=2 * OUTSIDE)
    axes.set_xlabel("measured effect / reported effect")
    for x, name in ((0, "no effect"), (1, "as reported")):
        axes.annotate(name, (x, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)


def _one(axes: Axes, y: float, estimate: tuple[float, float, float], colour: str, **look) -> None:
    """Draw a mean with its interval at height y; parts beyond the axis become arrows at its edge."""
    mean, low, high = estimate
    first, last = (float(np.clip(end, *ENDS)) for end in (low, high))
    if np.isfinite([mean]).all() and not np.isnan([low, high]).any():
        axes.plot([first, last], [y, y], color=colour, lw=1.1, solid_capstyle="butt")
    for end, edge, arrow, side in ((low, ENDS[0], "<", -1), (high, ENDS[1], ">", 1)):
        if side * end > side * edge:
            outside = offset_copy(axes.transData, axes.figure, x=side * OUTSIDE, units="points")
            arrow_look = {"ms": 3.5, "color": colour, "ls": "", "clip_on": False}
            axes.plot(edge, y, marker=arrow, transform=outside, **arrow_look)
    axes.plot(np.clip(mean, *ENDS), y, ls="", zorder=3, clip_on=False, **look)


def _list(axes: Axes, listed: pd.DataFrame, rows: int) -> None:
    """List claims with the marks of their verdicts, column by column."""
    axes.set(xlim=(0, COLUMNS), ylim=(max(rows, 1) - 0.5, -0.5))
    axes.set_axis_off()
    for number, row in enumerate(listed.itertuples()):
        column, y = divmod(number, max(rows, 1))
        colour, marker = LOOKS[Verdict(row.verdict)]
        axes.plot(column + 0.04, y, marker=marker, ms=5, color=colour, ls="", clip_on=False)
        axes.annotate(words(row), (column + 0.09, y), va="center", fontsize=7, annotation_clip=False)
    if len(listed):
        title = f"without a reported number to compare with, or without a measured effect ({len(listed)} of the claims)"
        axes.set_title(title, loc="left", fontsize=7.5)


def words(row: Any) -> str:
    """Return the name of the claim in a row of table claims as words.

    A dagger follows it if models without the claimed cause pass its test too.
    """
    return row.claim.replace("_", " ") + (f" {DAGGER}" if isinstance(row.also_passed_by, str) else "")
