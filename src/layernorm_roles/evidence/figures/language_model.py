"""Losses of the language models: the paper's Figure 4, and every variant beside baselines that need no attention."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.language_model import final_losses, paired_difference
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.evidence.figures.rows import runs_of
from layernorm_roles.evidence.legends import PAPER_MODEL
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING

LOSSES = {"train_loss": "training loss", "valid_loss": "validation loss"}
"""What each column is called in labels and titles."""

PAPER_LABEL = "paper at step 50,000"

BASE = "layernorm"
"""The variant from which the others are subtracted."""

REACH = 2.5
"""How far the axis of differences reaches for a baseline, relative to what all other variants need."""

UNIGRAM = {"color": "#404040", "ls": ":", "lw": 1.0}
"""Look of the loss of the training tokens' frequencies."""


def paper_losses(metrics: pd.DataFrame, column: str) -> Figure:
    """Draw a loss against the steps for the paper's two variants, and where the paper's models end.

    metrics: table language_model_metrics. The step 0 of untrained models is left out.
    """
    trained = runs_of(metrics, "language_model_metrics", "model", PAPER_MODEL)
    trained = trained[(trained.step > 0) & trained.variant.isin(PAPER_SCALING)]
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.7))
    handles = _curves(axes, trained, column)
    ends = {
        variant: reported()["language_model"][variant][column] for variant in legend_order(trained.variant)
    }
    last = int(trained.step.max())
    _mark_paper(axes, last, ends, colours.COLOURS)
    handles.append(style.mark(PAPER_LABEL, mec=style.GREY, **style.PAPER_MARK))
    axes.set(xlabel="optimiser steps", ylabel=f"{LOSSES[column]}\n(nats per token)", xlim=(0, 1.06 * last))
    style.thousands(axes)
    style.legend_below(figure, handles, columns=2)
    return figure


def all_losses(metrics: pd.DataFrame, model: str) -> Figure:
    """Draw the validation loss of all variants of a model by the steps, and how they end beside LayerNorm.

    metrics: table language_model_metrics. The axes of both panels are chosen for the variants: a baseline that lies
    beyond is named at the edge, with its number. LayerNorm alone has nothing beside it and no second panel.
    """
    trained = runs_of(metrics, "language_model_metrics", "model", model)
    trained = trained[trained.step > 0]
    alone = set(trained.variant) == {BASE}
    size, widths = ((style.COLUMN, 3.3), [1]) if alone else ((style.PAGE, 3.1), [1.15, 1])
    figure, ((left, *rest),) = plt.subplots(1, len(widths), figsize=size, width_ratios=widths, squeeze=False)
    handles = _curves(left, trained, "valid_loss")
    unigram = trained.unigram_loss.mean()
    if np.isfinite(unigram):
        left.axhline(unigram, zorder=0, **UNIGRAM)
        handles.append(style.mark("token frequencies (unigram)", **UNIGRAM))
    last = int(trained.step.max())
    left.set(xlabel="optimiser steps", ylabel="validation loss (nats per token)", xlim=(0, last))
    left.set_title(model)
    style.thousands(left)
    for right in rest:
        _endings(right, metrics, model)
        right.set_title(f"at step {last:,}")
    style.legend_below(figure, handles, columns=3)
    return figure


def _endings(axes: Axes, metrics: pd.DataFrame, model: str) -> None:
    """Draw each variant's final validation loss minus LayerNorm's of the same seed, and where the baselines are.

    Where the model has no LayerNorm runs, the losses themselves are drawn.
    """
    final = final_losses(metrics, model)
    losses = final if BASE not in final else final.sub(final[BASE], axis=0)
    unigram = final_losses(metrics, model, "unigram_loss")
    rows = [variant for variant in legend_order(losses.columns) if variant != BASE or BASE not in final]
    samples = {colours.label(variant): losses[variant].dropna() for variant in rows}
    base = [BASE if BASE in final else rows[0]]
    frequencies = (unigram[base[0]] - (final[BASE] if BASE in final else 0)).dropna()
    if len(frequencies):
        samples["token frequencies"] = frequencies
    palette = colours.palette(rows)
    shades = [*(palette[variant] for variant in rows), UNIGRAM["color"]]
    ends = [np.abs(style.of_three(losses[v].dropna())) for v in rows if v != NO_ATTENTION_VARIANT]
    reach = REACH * max((np.nanmax(end) for end in ends), default=np.inf)
    for y, (values, colour) in enumerate(zip(samples.values(), shades, strict=False)):
        mean, low, high = style.of_three(values)
        beyond = BASE in final and abs(mean) > reach
        if beyond:
            place = {"ha": "right", "va": "center", "fontsize": 7}
            axes.annotate(f"{mean:+.2f} →", (1, y), xycoords=("axes fraction", "data"), color=colour, **place)
            continue
        axes.plot(values, np.full(len(values), y + 0.22), ".", ms=3, color=colour, alpha=0.5)
        axes.hlines(y, low, high, color=colour, lw=1.2)
        axes.plot(mean, y, "o", ms=4.5, color=colour)
    if BASE in final:
        axes.axvline(0, color=colours.COLOURS[BASE], lw=1.4, zorder=0)
    axes.set(yticks=range(len(samples)), yticklabels=list(samples), ylim=(len(samples) - 0.4, -0.6))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(
        "loss − LayerNorm's (nats per token)" if BASE in final else "validation loss (nats per token)"
    )


def difference(metrics: pd.DataFrame, model: str, paper: bool) -> Figure:
    """Draw the loss without scaling minus the loss with it: mean over seeds, 95 % interval, and single pairs.

    metrics: table language_model_metrics. paper: whether to mark the differences between the paper's models. The
    axis shows all of the second half of the training; what comes before may go on beyond it.
    """
    metrics = runs_of(metrics, "language_model_metrics", "model", model)
    metrics = metrics[metrics.variant.isin(PAPER_SCALING)]
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.7), sharey=True)
    last = int(metrics.step.max())
    shown, pairs = [0.0], 0
    for axes, (column, title) in zip(panels, LOSSES.items(), strict=True):
        found = paired_difference(metrics, column)
        pairs = found.seed.nunique()
        single = found.pivot(index="step", columns="seed", values="difference")
        axes.plot(single.index, single, color=style.GREY, lw=0.5, alpha=0.4)
        gaps = style.mean_line(axes, found, "step", "difference", color=style.GREY)
        late = gaps[gaps.index >= last / 2]
        shown += [*gaps["mean"], *late.low, *late.high, *single[single.index >= last / 2].stack()]
        if paper:
            ends = reported()["language_model"]
            gap = ends["projection"][column] - ends["layernorm"][column]
            _mark_paper(axes, last, {title: gap}, {title: "black"})
            shown.append(gap)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set(title=title, xlabel="optimiser steps", xlim=(0, 1.06 * last if paper else last))
        style.thousands(axes)
    room = 0.08 * (max(shown) - min(shown))
    panels[0].set(ylim=(min(shown) - room, max(shown) + room))
    panels[0].set_ylabel("loss without − with scaling\n(nats per token)")
    handles = [
        style.mark(f"mean of {pairs} pairs of equal seed", color=style.GREY),
        style.mark("single pairs", color=style.GREY, lw=0.5, alpha=0.6),
    ]
    if paper:
        handles.append(style.mark(PAPER_LABEL, mec="black", **style.PAPER_MARK))
    style.legend_below(figure, handles, columns=3)
    return figure


def _curves(axes: Axes, metrics: pd.DataFrame, column: str) -> list:
    """Draw the mean of a loss over seeds for every variant, as `style.seeds_line`; return the legend's entries."""
    palette, handles = colours.palette(metrics.variant), []
    for variant in legend_order(metrics.variant):
        part = metrics[metrics.variant == variant]
        look = {"color": palette[variant], "ls": colours.stroke(variant)}
        style.seeds_line(axes, part, column, **look)
        handles.append(style.mark(colours.counted(colours.label(variant), part.seed.nunique()), **look))
    if (metrics.groupby("variant").seed.nunique() < style.ENOUGH_SEEDS).any():
        handles.append(style.single_run())
    return handles


def _mark_paper(axes: Axes, last: int, values: Mapping[str, float], palette: Mapping[str, str]) -> None:
    """Mark the paper's values right of the last step, each in the colour that `palette` has for its name."""
    for name, value in values.items():
        axes.plot(1.04 * last, value, mec=palette[name], clip_on=False, zorder=5, **style.PAPER_MARK)
