"""Losses and attention of a language model at the paper's learning rate, by training step."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.language_model import (
    BASE,
    COMPARED,
    GAP,
    LOSSES,
    reported_gap,
)
from layernorm_roles.variants import BUILT_IN, NO_ATTENTION_VARIANT, PAPER_SCALING


def paper_rate(metrics: pd.DataFrame, attention: pd.DataFrame, model: str) -> Figure:
    """Draw losses minus LayerNorm's, and what attention does, of a language model's variants by training step.

    The tables are language_model_metrics and language_model_attention. Lines are named at their ends, on the right.
    """
    runs, of_model = (
        table[(table.model == model) & table.variant.isin(COMPARED) & (table.step > 0)]
        for table in (metrics, attention)
    )
    worth = of_model[of_model.layer.isna() & (of_model.variant != NO_ATTENTION_VARIANT)]
    deviations = of_model.groupby(["variant", "seed", "step"]).score_deviation.mean().dropna().reset_index()
    figure, (above, below) = plt.subplots(2, 2, figsize=(style.PAGE, 4.8), sharex=True)
    above[1].sharey(above[0])
    looks = style.looks_of(runs.variant)
    looks = dict(zip(looks, style.counted(looks, runs), strict=True))
    for axes, (column, words) in zip(above, LOSSES.items(), strict=True):
        ends = _differences(axes, runs, column, looks)
        axes.set_title(words)
    above[0].set_ylabel("loss − LayerNorm's\n(nats per token)")
    style.name_ends(above[1], [(0.0, looks[BASE]), *((end, looks[name]) for name, end in ends.items())])
    uniform(below[0], worth.assign(arm=worth.variant), looks, "token")
    below[0].set_title("effect of attention")
    below[0].set_yscale("symlog", linthresh=1e-3)
    style.lines(below[1], deviations, "variant", looks, "step", "score_deviation", spread="seeds")
    below[1].set(title="spread of a query's scores", yscale="log")
    below[1].set_ylabel("standard deviation,\nmean over layers")
    last = deviations[deviations.step == deviations.step.max()].groupby("variant").score_deviation.mean()
    style.name_ends(below[1], [(end, looks[name]) for name, end in last.items()])
    for axes in below:
        axes.set_xlabel("optimiser steps")
    style.legend_below(figure, [], columns=2, further=[GAP])
    return figure


def _differences(axes: Axes, runs: pd.DataFrame, column: str, looks: style.Looks) -> pd.Series:
    """Draw a loss minus LayerNorm's of equal seeds by step, with intervals at the last; return the means there."""
    gaps, last = style.differences(runs, BASE, column, "step", "seed"), int(runs.step.max())
    drawn = dict(hue="variant", y="difference")
    style.lines(axes, gaps, looks=looks, x="step", spread="none", **drawn)
    axes.axhline(0, color=BUILT_IN[BASE].colour, lw=1.4, zorder=0)
    at_last = gaps[gaps.step == last]
    marks = style.apart(style.each(looks, marker="o", ms=3), 1.02)
    style.lines(axes, at_last.assign(x=1.11 * last), looks=marks, x="x", spread="bars", **drawn)
    if {*PAPER_SCALING} <= {*runs.variant}:
        axes.plot(1.04 * last, reported_gap(column), clip_on=False, zorder=5, **GAP)
    axes.set_xlim(0, 1.18 * last)
    axes.set_xticks([0, last // 2, last])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return at_last.groupby("variant").difference.mean()


def uniform(axes: Axes, runs: pd.DataFrame, looks: style.Looks, unit: str) -> None:
    """Draw the loss increase under uniform attention by step, a line for each value of the column `arm`.

    It is the validation loss with all attention scores 0 minus the loss. `runs` are rows of language_model_attention.
    """
    style.lines(axes, runs, "arm", looks, "step", "zero_scores_worth", spread="seeds")
    axes.set_ylabel(f"loss increase under uniform\nattention (nats per {unit})")
    axes.xaxis.set_major_formatter("{x:,.0f}")
