"""The paper's claims at a glance: effects on one scale, and the verdict on each."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from layernorm_roles.evidence.claims import on_common_scale
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.figures import style

LOOKS = {
    verdict: dict(color=colour, marker=marker, ls="", ms=5)
    for verdict, colour, marker in (
        (Verdict.HOLDS, style.GREEN, "o"),
        (Verdict.PARTIAL, style.ORANGE, "D"),
        (Verdict.CONFOUNDED, "#882255", "P"),
        (Verdict.DOES_NOT_HOLD, style.VERMILION, "X"),
        (Verdict.INCONCLUSIVE, "#7F7F7F", "d"),
        (Verdict.NOT_RUN, "#B8B8B8", "s"),
    )
}
"""Look of the mark of a claim, by the verdict on the claim."""

PAPER, UNTRAINED = "Brody, Alon and Yahav 2023, ", "the same models untrained"
"""How, in table claims, the `source` of the paper's claims begins, and a `control` that is untrained models and so
isolates no cause."""

ENDS = (-1.0, 2.0)
"""Ends of the axis, in units of the effect that the paper reports; an arrow at the edge marks what lies beyond."""

OUTSIDE = 5
"""Points (1/72 inch) between an edge of the axis and an arrow for a value beyond it, so that no mark hides it."""

ISOLATED = dict(label="isolating comparison", ls="", color=style.GREY, ms=4, marker="o", mfc="white")
WITHOUT_TRAINING = dict(label="untrained models", ls="", color=style.GREY, ms=4.5, marker="+")
PASSED = dict(label="passed also without the cause", ls="", ms=5, marker="$†$", color="black")
"""Looks of the effects of the two kinds of controls, and of the dagger beside claims whose test is passed, too, by
models that lack what the claim is about."""


def forest(claims: pd.DataFrame) -> Figure:
    """Draw the measured effects of the paper's claims, divided by the reported effects, with intervals and verdicts.

    On the axis 0 is no effect, 1 the effect that the paper reports. `claims` is the table claims; a claim without a
    measured or without a reported effect is left out. Of effects that are ratios, the logarithms are compared.
    """
    scaled = on_common_scale(claims)
    shown = scaled[scaled.effect.notna() & (scaled.kind == "paper")]
    figure, axes = plt.subplots(figsize=(style.PAGE, 0.23 * max(len(shown), 1) + 1.4))
    for x, name, stroke in ((0, "no effect", "-"), (1, "as reported", "--")):
        axes.axvline(x, color="black", lw=0.7, ls=stroke, zorder=0)
        axes.annotate(name, (x, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=7)
    for y, row in enumerate(shown.itertuples()):
        _row(axes, y, row)
    axes.set(xlim=ENDS, ylim=(len(shown) - 0.4, -0.6), xticks=np.arange(-1, 2.1, 0.5))
    daggers = shown.also_passed_by.notna().map({True: " †", False: ""})
    axes.set_yticks(range(len(shown)), shown.source.str.removeprefix(PAPER) + daggers)
    axes.tick_params(axis="y", length=0, pad=2 * OUTSIDE)
    axes.set_xlabel("measured effect / reported effect")
    counts = shown.verdict.value_counts()
    entries = [LOOKS[name] | dict(label=f"{name} ({counts[name]})") for name in MEANINGS if name in counts]
    if shown.also_passed_by.notna().any():
        axes.plot([], [], **PASSED)  # the legend's entry: the daggers themselves are text
    style.legend_below(figure, entries, columns=5, further=[ISOLATED, WITHOUT_TRAINING, PASSED])
    return figure


def _row(axes: Axes, y: int, row: Any) -> None:
    """Draw the effect of a claim, a row of `on_common_scale`, with its interval, and that of its control below it."""
    _effect(axes, y - 0.1, (row.effect, row.low, row.high), LOOKS[Verdict(row.verdict)])
    if not ENDS[0] <= row.effect <= ENDS[1]:
        inwards, side = (5, "left") if row.effect < ENDS[0] else (-5, "right")
        text = f"{row.effect:.1f}".replace("-", "−").replace("inf", "∞")
        look = dict(xytext=(inwards, 0), textcoords="offset points", ha=side, va="center")
        axes.annotate(text, (float(np.clip(row.effect, *ENDS)), y - 0.1), fontsize=6, **look)
    if np.isfinite(row.isolated):
        look = WITHOUT_TRAINING if row.control.startswith(UNTRAINED) else ISOLATED
        _effect(axes, y + 0.2, (row.isolated, row.isolated_low, row.isolated_high), look)


def _effect(axes: Axes, y: float, estimate: tuple[float, float, float], look: style.Look) -> None:
    """Draw a mean with its interval at height y; parts beyond the axis become arrows at its edge."""
    mean, low, high = estimate[0], min(estimate[1:]), max(estimate[1:])  # a reported effect may be negative
    if not np.isnan([mean, low, high]).any():
        axes.plot(np.clip([low, high], *ENDS), [y, y], color=look["color"], lw=1.1, solid_capstyle="butt")
    for end, edge, arrow, side in ((low, ENDS[0], "<", -1), (high, ENDS[1], ">", 1)):
        if side * end > side * edge:
            outside = offset_copy(axes.transData, axes.figure, x=side * OUTSIDE, units="points")
            shape = dict(ls="", marker=arrow, ms=3.5, color=look["color"], clip_on=False)
            axes.plot(edge, y, transform=outside, **shape)
    axes.plot(np.clip(mean, *ENDS), y, zorder=3, clip_on=False, **look)
