"""Losses of the language models against the optimiser steps (the paper's Figure 4)."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.language_model import of_single_points
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import PAPER_MODEL, in_words, of_bytes
from layernorm_roles.variants import BUILT_IN, NO_ATTENTION_VARIANT, PAPER_SCALING

LOSSES = {"train_loss": "training loss", "valid_loss": "validation loss"}
"""What labels and titles call the losses, by column of table language_model_metrics."""

BASE, WITHOUT = PAPER_SCALING
"""LayerNorm, whose losses are subtracted from those of other variants, and the variant without its scaling."""

PAPER_RATE_MODEL = "gpt_paper_rate"
"""The model of the paper's sizes at the paper's learning rate and number of steps."""

COMPARED = ("layernorm", "layernorm_shrunk", "projection", "projection_grown", NO_ATTENTION_VARIANT)
"""The variants of that model that are drawn: with scaling and without, large and small, and no attention."""

PAPER_STEP = 50_000
"""The optimiser step at which the paper reports its losses."""

UNIGRAM = dict(label="token frequencies (unigram)", color="#808080", ls=":", lw=1.0)
GAP = dict(label=f"paper, projection only − LayerNorm at step {PAPER_STEP:,}", mec=BUILT_IN[WITHOUT].colour)
GAP |= style.PAPER_MARK
GAP_LINE = dict(
    label="paper’s difference at its last step", color=BUILT_IN[WITHOUT].colour, ls=(0, (1, 3)), lw=1.2
)
"""Looks of the line at the loss of a model that knows the frequencies of the training tokens alone, of the mark of the
difference between the losses that the paper reports, and of a line for it in a training that ends before its step."""

FARTHEST = 2.5
"""How far an axis of differences reaches at most for the model without attention, over what other variants need."""


def paper_losses(metrics: pd.DataFrame, settings: Mapping[str, Any], column: str) -> Figure:
    """Draw a loss of the GPT nearest to the paper's settings by step, and its difference from LayerNorm's.

    `column` of the table language_model_metrics is train_loss or valid_loss, in nats per token. The model is
    gpt_paper_rate where both variants of the paper were run, else gpt. The difference that the paper reports is marked;
    its losses are not, because they are of another tokenizer and text.
    """
    at_rate = metrics[metrics.model == PAPER_RATE_MODEL]
    if {*PAPER_SCALING} <= {*at_rate.variant}:
        metrics = at_rate[at_rate.variant.isin(COMPARED)]
        return _rows(metrics, [PAPER_RATE_MODEL], column, settings)
    return _rows(metrics, [PAPER_MODEL], column, settings)


def losses(metrics: pd.DataFrame, settings: Mapping[str, Any]) -> Figure:
    """Draw validation losses of the other language models by step, and their differences from LayerNorm's.

    Each model has a row of panels. `metrics` is the table language_model_metrics. Models with several learning rates or
    training lengths, with LayerNorm alone, or with figures of their own are left out.
    """
    single = of_single_points(metrics)
    alone = single.model.isin([PAPER_MODEL, PAPER_RATE_MODEL]) | single.model.str.startswith("step_size_")
    models = single.model[(single.variant != BASE) & ~alone].unique()
    return _rows(metrics, [*models], "valid_loss", settings)


def _rows(metrics: pd.DataFrame, models: Sequence[str], column: str, settings: Mapping[str, Any]) -> Figure:
    """Draw a loss and `differences` in a row for each model."""
    trained = metrics[metrics.model.isin(models) & (metrics.step > 0)]
    size = (style.PAGE, 2.35 * len(models) + 0.7)
    figure, panels = plt.subplots(len(models), 2, figsize=size, squeeze=False)
    looks = style.looks_of(trained.variant)
    for row, model in zip(panels, models, strict=True):
        runs = trained[trained.model == model]
        unit = f"nats per {'byte' if of_bytes(model, settings) else 'token'}"
        style.lines(row[0], runs, "variant", looks, "step", column, spread="seeds")
        row[0].set(title=in_words(model, settings), ylabel=f"{LOSSES[column]}\n({unit})")
        row[0].set_xlim(0, runs.step.max())
        row[0].xaxis.set_major_formatter("{x:,.0f}")
        differences(row[1], runs, column, looks, unit)
        if column == "valid_loss" and runs.unigram_loss.notna().any():
            row[0].axhline(runs.unigram_loss.mean(), zorder=0, **UNIGRAM)
    for axes in panels[-1]:
        axes.set_xlabel("optimiser steps")
    style.legend_below(figure, style.counted(looks, trained), columns=3, further=[UNIGRAM, GAP, GAP_LINE])
    return figure


def differences(axes: Axes, runs: pd.DataFrame, column: str, looks: style.Looks, unit: str) -> None:
    """Draw the difference of a loss from LayerNorm's, of runs with equal seeds, against the steps.

    `runs` are rows of table language_model_metrics on one model. The axis fits the second half of training; a variant
    that ends beyond it is named there, with its difference at the last step. The paper's models have the reported
    difference. Without runs of LayerNorm the panel is empty.
    """
    if BASE not in set(runs.variant):
        axes.set_axis_off()
        return
    gaps, last = style.differences(runs, BASE, column, "step", "seed"), runs.step.max()
    style.lines(axes, gaps, "variant", looks, "step", "difference", spread="seeds")
    axes.axhline(0, color=BUILT_IN[BASE].colour, lw=1.4, zorder=0)
    late = gaps[(gaps.step >= last / 2) & np.isfinite(gaps.difference)]
    bare = late.variant == NO_ATTENTION_VARIANT
    inside = [0.0, *late.difference[~bare]]
    inside += [gap for gap in late.difference[bare] if abs(gap) <= FARTHEST * np.abs(inside).max()]
    margin = 0.1 * np.ptp(inside) + 0.005
    low, high = min(inside) - margin, max(inside) + margin
    ends = gaps[gaps.step == last].groupby("variant").difference.mean()
    for number, (name, end) in enumerate(ends[(ends <= low) | (ends >= high)].items()):
        text = f"{looks[name]['label']} {end:+.2f} {'↑' if end > 0 else '↓'}".replace("-", "−")
        place = dict(xycoords="axes fraction", ha="right", va="top", fontsize=7)
        place["bbox"] = dict(facecolor="white", edgecolor="none", pad=1)
        axes.annotate(text, (0.98, 0.98 - 0.1 * number), color=looks[name]["color"], **place)
    axes.set(title="difference from LayerNorm, equal seeds", ylabel=f"loss − LayerNorm's\n({unit})")
    axes.set(xlim=(0, last), ylim=(low, high))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if {*PAPER_SCALING} <= {*runs.variant} and {*runs.model} <= {PAPER_MODEL, PAPER_RATE_MODEL}:
        gap = reported_gap(column)
        axes.set_ylim(min(low, gap - 0.01), max(high, gap + 0.01))
        if last >= PAPER_STEP:
            axes.plot(PAPER_STEP, gap, clip_on=False, zorder=5, **GAP)
        else:
            axes.axhline(gap, **GAP_LINE)


def reported_gap(column: str) -> float:
    """The paper's loss without scaling minus that with LayerNorm, in nats per token."""
    without, base = (reported()["language_model"][name][column] for name in (WITHOUT, BASE))
    return without - base
