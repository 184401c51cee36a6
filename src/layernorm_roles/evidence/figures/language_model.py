"""Losses of the language models against the optimiser steps (the paper's Figure 4)."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.language_model import of_single_points
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import PAPER_MODEL
from layernorm_roles.variants import BUILT_IN, NO_ATTENTION_VARIANT, PAPER_SCALING

LOSSES = {"train_loss": "training loss", "valid_loss": "validation loss"}
"""What labels and titles call the losses, by column of table language_model_metrics."""

BASE, WITHOUT = PAPER_SCALING
"""LayerNorm, whose losses are subtracted from those of other variants, and the variant without its scaling."""

SHOWN_ALONE = (PAPER_MODEL, "gpt_paper_rate")
"""Models with figures of their own: those of the paper's sizes, and of its learning rate and number of steps, too."""

UNIGRAM = dict(label="token frequencies (unigram)", color="#404040", ls=":", lw=1.0)
GAP = dict(label="paper, projection only − LayerNorm at step 50,000", mec=BUILT_IN[WITHOUT].colour)
GAP |= style.PAPER_MARK
"""Looks of the line at the loss of a model that knows the frequencies of the training tokens alone, and of the mark of
the difference between the losses that the paper reports."""

FARTHEST = 2.5
"""How far an axis of differences reaches at most for the model without attention, over what other variants need."""


def paper_losses(metrics: pd.DataFrame, column: str) -> Figure:
    """Draw a loss of the language model gpt against the steps, and its difference from LayerNorm's in a second panel.

    `metrics` is the table language_model_metrics; `column` is train_loss or valid_loss, in nats per token. The
    difference that the paper reports is marked. The paper's losses are not: they are of another tokenizer and text.
    """
    figure, entries = _rows(metrics, [PAPER_MODEL], column)
    style.legend_below(figure, entries, columns=3, further=[UNIGRAM, GAP])
    return figure


def losses(metrics: pd.DataFrame) -> Figure:
    """Draw validation losses (nats per token) of language models by step, and their differences from LayerNorm's.

    Each model has a row of panels. `metrics` is the table language_model_metrics. Models with several learning rates or
    training lengths, with LayerNorm alone, or with figures of their own (SHOWN_ALONE) are left out.
    """
    single = of_single_points(metrics)
    models = single.model[(single.variant != BASE) & ~single.model.isin(SHOWN_ALONE)].unique()
    figure, entries = _rows(metrics, [*models], "valid_loss")
    style.legend_below(figure, entries, columns=3, further=[UNIGRAM])
    return figure


def _rows(metrics: pd.DataFrame, models: Sequence[str], column: str) -> tuple[Figure, list]:
    """Draw a loss and `differences` in a row for each model; return the figure and the legend's entries of variants."""
    trained = metrics[metrics.model.isin(models) & (metrics.step > 0)]
    size = (style.PAGE, 2.35 * len(models) + 0.7)
    figure, panels = plt.subplots(len(models), 2, figsize=size, squeeze=False)
    looks = style.looks_of(trained.variant)
    for row, model in zip(panels, models, strict=True):
        runs = trained[trained.model == model]
        style.lines(row[0], runs, "variant", looks, "step", column, spread="seeds")
        row[0].set(title=f"{model}: {LOSSES[column]}", ylabel=f"{LOSSES[column]}\n(nats per token)")
        row[0].set_xlim(0, runs.step.max())
        row[0].xaxis.set_major_formatter("{x:,.0f}")
        differences(row[1], runs, column, looks)
        if column == "valid_loss" and runs.unigram_loss.notna().any():
            row[0].axhline(runs.unigram_loss.mean(), zorder=0, **UNIGRAM)
    for axes in panels[-1]:
        axes.set_xlabel("optimiser steps")
    return figure, style.counted(looks, trained)


def differences(
    axes: Axes, runs: pd.DataFrame, column: str, looks: style.Looks, at_the_end: bool = False
) -> None:
    """Draw the difference of a loss from LayerNorm's against the steps.

    `runs` are rows of table language_model_metrics on one model, `column` the loss in nats per token. Differences are
    between runs with equal seeds. Their axis fits the second half of training; a variant that ends beyond it is named
    there, with its difference at the last step. With `at_the_end` the spread over seeds is shown for the last step
    alone, beyond it. There the paper's models (SHOWN_ALONE) have the reported difference. Without runs of LayerNorm the
    panel is empty.
    """
    if BASE not in set(runs.variant):
        axes.set_axis_off()
        return
    gaps, last = style.differences(runs, BASE, column, "step", "seed"), runs.step.max()
    drawn = dict(hue="variant", x="step", y="difference")
    style.lines(axes, gaps, looks=looks, spread="none" if at_the_end else "seeds", **drawn)
    axes.axhline(0, color=BUILT_IN[BASE].colour, lw=1.4, zorder=0)
    late = gaps[(gaps.step >= last / 2) & np.isfinite(gaps.difference)]
    bare = late.variant == NO_ATTENTION_VARIANT
    inside = [0.0, *late.difference[~bare]]
    inside += [gap for gap in late.difference[bare] if abs(gap) <= FARTHEST * np.abs(inside).max()]
    margin = 0.1 * np.ptp(inside) + 0.005
    low, high = min(inside) - margin, max(inside) + margin
    at_last = gaps[gaps.step == last]
    ends = at_last.groupby("variant").difference.mean()
    for number, (name, end) in enumerate(ends[(ends <= low) | (ends >= high)].items()):
        text = f"{looks[name]['label']} {end:+.2f} {'↑' if end > 0 else '↓'}".replace("-", "−")
        place = dict(xycoords="axes fraction", ha="right", va="top", fontsize=7)
        place["bbox"] = dict(facecolor="white", edgecolor="none", pad=1)
        axes.annotate(text, (0.98, 0.98 - 0.1 * number), color=looks[name]["color"], **place)
    axes.set(title="difference from LayerNorm, equal seeds", ylabel="loss − LayerNorm's\n(nats per token)")
    axes.set(xlim=(0, last), ylim=(low, high))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if {*PAPER_SCALING} <= {*runs.variant} and {*runs.model} <= {*SHOWN_ALONE}:
        gap = np.subtract(*(reported()["language_model"][name][column] for name in (WITHOUT, BASE)))
        axes.plot(1.04 * last, gap, clip_on=False, zorder=5, **GAP)
        axes.set(xlim=(0, 1.06 * last), ylim=(min(low, gap - 0.01), max(high, gap + 0.01)))
    if at_the_end:
        marks = style.apart(style.each(looks, marker="o", ms=3), 1.02)
        style.lines(axes, at_last.assign(step=1.11 * last), looks=marks, spread="bars", **drawn)
        axes.set_xlim(0, 1.18 * last)
