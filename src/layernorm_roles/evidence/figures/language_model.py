"""Losses of the language models (the paper's Figure 4), and unselectable keys in their heads."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.language_model import CHECKPOINTS, PAPER_VARIANTS, paired_difference
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours, style

BROKEN = {"projection": "--", "layernorm_qk": ":"}
"""Line styles of variants that would hide LayerNorm's line; the lines of all others are solid."""

DIFFERENCES = {"train_loss": "training loss", "valid_loss": "validation loss"}
"""Title of the panel for each column whose difference is drawn."""

PAPER_MARK = {"ls": "", "marker": "D", "ms": 4.5, "mfc": "white", "mew": 1.1}
PAPER_LABEL = "paper at step 50,000"


def losses(
    metrics: pd.DataFrame, column: str, axis: str, variants: Sequence[str] = (), paper: bool = False
) -> Figure:
    """Draw a loss against the steps for `variants`, all if none are given, without the step 0 of untrained models.

    metrics: table language_model_metrics or bert_metrics. axis: label of the y axis. paper: whether to mark, at the
    right edge, the loss that the paper's model of the variant ends with.
    """
    trained = metrics[metrics.step > 0]
    if variants:
        trained = trained[trained.variant.isin(variants)]
    palette, present = colours.palette(trained.variant), legend_order(trained.variant)
    narrow = len(present) <= 2
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.7) if narrow else (style.PAGE, 3.2))
    handles = []
    for variant in present:
        part = trained[trained.variant == variant]
        look = {"color": palette[variant], "ls": BROKEN.get(variant, "-")}
        style.mean_line(axes, part, "step", column, **look)
        seeds = part.seed.nunique()
        handles.append(
            style.mark(f"{colours.label(variant)}, {seeds} seed{'s' if seeds > 1 else ''}", **look)
        )
    last = int(trained.step.max())
    if paper:
        ends = {variant: reported()["language_model"][variant][column] for variant in present}
        _mark_paper(axes, last, ends, palette)
        handles.append(style.mark(PAPER_LABEL, mec=style.GREY, **PAPER_MARK))
    axes.set(xlabel="optimiser steps", ylabel=axis, xlim=(0, 1.06 * last if paper else last))
    style.thousands(axes)
    style.legend_below(figure, handles, columns=2 if narrow else 3)
    return figure


def difference(metrics: pd.DataFrame) -> Figure:
    """Draw the loss without scaling minus the loss with it, mean over seeds and 95 % interval.

    metrics: table language_model_metrics, of which the paper's two variants are drawn.
    The axis shows all of the second half of the training; a band of the first half may go on beyond the axis.
    """
    metrics = metrics[metrics.variant.isin(PAPER_VARIANTS)]
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.7), sharey=True)
    last, paper = int(metrics.step.max()), reported()["language_model"]
    shown = [0.0]
    for axes, (column, title) in zip(panels, DIFFERENCES.items(), strict=True):
        gaps = style.mean_line(
            axes, paired_difference(metrics, column), "step", "difference", color=style.GREY
        )
        gap = paper["projection"][column] - paper["layernorm"][column]
        _mark_paper(axes, last, {title: gap}, {title: "black"})
        late = gaps[gaps.index >= last / 2]
        shown += [gap, *gaps["mean"], *late.low, *late.high]
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set(title=title, xlabel="optimiser steps", xlim=(0, 1.06 * last))
        style.thousands(axes)
    room = 0.08 * (max(shown) - min(shown))
    panels[0].set(ylim=(min(shown) - room, max(shown) + room))
    panels[0].set_ylabel("loss without − with scaling\n(nats per token)")
    seeds = metrics.groupby("variant").seed.agg(set)
    both = len(set.intersection(*seeds))
    handles = [
        style.mark(f"mean of {both} pairs of equal seed", color=style.GREY),
        style.mark(PAPER_LABEL, mec="black", **PAPER_MARK),
    ]
    style.legend_below(figure, handles, columns=2)
    return figure


def _mark_paper(axes: Axes, last: int, values: Mapping[str, float], palette: Mapping[str, str]) -> None:
    """Mark the paper's values right of the last step, each in the colour that `palette` has for its name."""
    for name, value in values.items():
        axes.plot(1.04 * last, value, mec=palette[name], clip_on=False, zorder=5, **PAPER_MARK)


def heads(keys: pd.DataFrame, variants: Sequence[str], d_head: int | None = None) -> Figure:
    """Draw the share of unselectable keys in each head (points) and at the attention input (bars) by layer.

    keys: table key_selectability, of which the long contexts of the model gpt are drawn, at both checkpoints.
    d_head: dimensions of a head, for the title; the title leaves it out where it is None.
    """
    chosen = keys[(keys.model == "gpt") & (keys.texts == "long") & keys.variant.isin(variants)]
    chosen = chosen.assign(share=100 * chosen.n_unselectable / chosen.n_keys)
    present = legend_order(chosen.variant)
    if not present:
        raise ValueError(f"key_selectability: none of the variants {list(variants)} to draw")
    palette = colours.palette(present)
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.9), sharey=True)
    for axes, checkpoint in zip(panels, CHECKPOINTS, strict=True):
        for i, variant in enumerate(present):
            part = chosen[(chosen.checkpoint == checkpoint) & (chosen.variant == variant)]
            shift = 0.78 / len(present) * (i - (len(present) - 1) / 2)
            _layers(axes, part, shift, palette[variant])
        axes.set(title=f"{checkpoint} weights", xlabel="layer", xticks=sorted(chosen.layer.unique()))
        axes.set_ylim(-4, 104)
    panels[0].set_ylabel("unselectable keys (%)")
    few, most = chosen.n_keys.min(), chosen.n_keys.max()
    size = f"{few:,} to {most:,} keys a context" if few < most else f"{few:,} keys a context"
    figure.suptitle(size if d_head is None else f"d_head = {d_head}, {size}", fontsize=8)
    handles = [style.mark(colours.label(name), color=palette[name], lw=4) for name in present]
    handles.append(style.mark("attention input", color=style.GREY, lw=2))
    look = {"marker": "o", "markersize": 4, "ls": "", "markeredgecolor": style.GREY}
    handles.append(style.mark("in a head", color=style.GREY, **look))
    if (chosen.site == "head_exact").any():
        handles.append(style.mark("in a head, QK-norm with eps = 0", color="white", **look))
    style.legend_below(figure, handles, columns=3)
    return figure


def _layers(axes: Axes, part: pd.DataFrame, shift: float, colour: str) -> None:
    """Draw one variant's mean shares beside every layer, `shift` to the right of the layer's number."""
    for layer, here in part.groupby("layer"):
        x = layer + shift
        bar = here.share[here.site == "after_norm"].mean()
        axes.hlines(bar, x - 0.12, x + 0.12, color=colour, linewidth=2)
        for site, face in (("head", colour), ("head_exact", "white")):
            points = here[here.site == site].groupby("head").share.mean()
            places = x + np.linspace(-0.06, 0.06, len(points))
            axes.scatter(places, points, s=13, color=face, edgecolor=colour, linewidth=0.8, zorder=3)
