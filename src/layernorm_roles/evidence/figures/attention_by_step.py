"""Language models while they train: losses, what attention is worth, and when it begins, by the size of its input."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.attention_by_step import ONSET, dose, onsets
from layernorm_roles.evidence.analysis.majority import steps_to_reach
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import LOOKS
from layernorm_roles.variants import MATCHED_VARIANT, NO_ATTENTION_VARIANT

BASE = "layernorm"
"""The variant from which the losses of the others are subtracted."""

COMPARED = (BASE, "layernorm_shrunk", "projection", "projection_grown", NO_ATTENTION_VARIANT)
"""The variants of `paper_rate`: scaled or not, each large and small, and without attention."""


def paper_rate(metrics: pd.DataFrame, attention: pd.DataFrame, model: str) -> Figure:
    """Draw by the steps the losses of COMPARED, their differences, and what attention does in them.

    metrics: table language_model_metrics; attention: table language_model_attention; both of `model` are drawn. The
    worth of attention is that of the whole model, the deviation of its scores the mean over layers.
    """
    runs = style.runs_of(metrics, "language_model_metrics", "model", [model])
    runs = runs[runs.variant.isin(COMPARED) & (runs.step > 0)]
    looks = attention[(attention.model == model) & attention.variant.isin(COMPARED) & (attention.step > 0)]
    deviations = looks.groupby(["variant", "seed", "step"]).score_deviation.mean().dropna().reset_index()
    figure, ((left, right), (below, last)) = plt.subplots(2, 2, figsize=(style.PAGE, 5.2), sharex=True)
    drawn = style.looks(runs.variant)
    gaps = style.differences(runs, BASE, "valid_loss", "step", "seed")
    worth = looks[looks.layer.isna() & (looks.variant != NO_ATTENTION_VARIANT)]
    for axes, table, column in (
        (left, runs, "valid_loss"),
        (right, gaps[np.isfinite(gaps.difference)], "difference"),
        (below, worth, "mean_kept_worth"),
        (last, deviations, "score_deviation"),
    ):
        style.lines(axes, table, "variant", drawn, "step", column, spread="band")
    right.axhline(0, color=LOOKS[BASE].colour, lw=1.4, zorder=0)
    left.set(title="validation loss", ylabel="nats per token")
    right.set(title="difference from LayerNorm, equal seeds", ylabel="nats per token")
    below.set(title="worth of attention", ylabel="nats per token")
    last.set(title="deviation of a query’s scores", ylabel="mean over layers", yscale="log")
    for axes in (below, last):
        axes.set_xlabel("optimiser steps")
        axes.set_xlim(0, runs.step.max())
        style.thousands(axes)
    style.legend_below(figure, style.marks(style.with_seeds(drawn, runs)), columns=3)
    return figure


DOSES = {
    "layernorm": {"label": "LayerNorm × constant", "color": LOOKS["layernorm"].colour, "marker": "o"},
    "projection": {"label": "projection × constant", "color": LOOKS["projection"].colour, "marker": "s"},
    "scale": {"label": "scaling × constant", "color": LOOKS["scale"].colour, "marker": "o"},
    MATCHED_VARIANT: {"label": LOOKS[MATCHED_VARIANT].label, "color": "#882255", "marker": "D"},
    "shrunk_qk": {
        "label": "LayerNorm, × 0.028 for QK alone",
        "color": LOOKS["shrunk_qk"].colour,
        "marker": "<",
    },
    "shrunk_v": {"label": "LayerNorm, × 0.028 for V alone", "color": LOOKS["shrunk_v"].colour, "marker": ">"},
}
"""Looks of the marks of `dose_response`: families of `dose`, and single variants of other kinds."""

APART = {"layernorm": 0.95, "scale": 1.05}
"""By how much marks of the majority task are moved along the axis, so that equal sizes do not hide each other."""

SIZES = ("d8", "sizes")
"""The majority experiments of one setting in which layernorm and scale have several sizes."""


def dose_response(
    attention: pd.DataFrame, metrics: pd.DataFrame, norms: Mapping[str, Any], model: str
) -> Figure:
    """Draw when runs begin to attend by the size of attention's input; beside it how fast the majority task is learnt.

    attention: table language_model_attention, of which `model` is drawn; metrics: table majority_metrics, of which the
    experiments SIZES are; `norms` are those of the settings. There is a mark for each run. Runs that do not get there
    are at the upper edge, as later than their last step. Without SIZES there is one panel.
    """
    begun = onsets(style.runs_of(attention, "language_model_attention", "model", [model]))
    begun = begun.assign(kind=[_kind(name, norms) for name in begun.variant]).dropna(subset="kind")
    found = steps_to_reach(metrics[metrics.experiment.isin(SIZES)], [TEST_LOSS])
    doses = [dose(run.variant, norms, run.d_model) for run in found.itertuples()]
    found = found.assign(
        kind=[each and each.family for each in doses], size=[each and each.size for each in doses]
    )
    found = found[found.kind.isin(["layernorm", "scale"])]
    size = (style.PAGE if len(found) else style.COLUMN, 3.6)
    figure, (panels,) = plt.subplots(1, 1 + (len(found) > 0), figsize=size, squeeze=False)
    _marks(panels[0], begun, "input_rms", "onset")
    panels[0].set_title(f"{model}, {style.number_of([len(begun)], 'run')}")
    panels[0].set_ylabel(f"first step at which scores are\nworth {ONSET:g} nats per token")
    panels[0].set_xlabel("root mean square of attention’s input")
    for axes in panels[1:]:
        _marks(axes, found.assign(size=found["size"] * found.kind.map(APART)), "size", "steps")
        axes.set_title(f"majority task, {style.number_of([len(found)], 'run')}")
        axes.set_ylabel(f"steps to a test loss of {TEST_LOSS:g}")
        axes.set_xlabel("size relative to LayerNorm’s")
        style.ticks_at(axes, found["size"])
    present = {*begun.kind, *found.kind}
    handles = [style.mark(**look, ls="") for kind, look in DOSES.items() if kind in present]
    style.legend_below(figure, handles, columns=3)
    return figure


def _kind(variant: str, norms: Mapping[str, Any]) -> str | None:
    """The key of DOSES by which a variant is drawn: its own or that of its family; None if it has neither."""
    found = dose(variant, norms)
    return variant if variant in DOSES else found and found.family


def _marks(axes: Axes, runs: pd.DataFrame, x: str, y: str) -> None:
    """Draw `y` by `x` of each run, on a logarithmic x axis; runs without it stand, hollow, above their last step."""
    last = runs.last_step.max()
    for kind, part in runs.groupby("kind"):
        look = {key: DOSES[kind][key] for key in ("color", "marker")} | {"ls": "", "ms": 5, "alpha": 0.7}
        there, never = part.dropna(subset=y), part[part[y].isna()]
        axes.plot(there[x], there[y], **look)
        axes.plot(never[x], np.full(len(never), 1.06 * last), mfc="none", **look)
    axes.axhline(1.02 * last, color=style.GREY, lw=0.6, ls=":")
    place = {"xy": (1, 1.015 * last), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "top"}
    axes.annotate(f"not by step {int(last):,}", fontsize=7, color=style.GREY, **place)
    axes.set(xscale="log", ylim=(0, 1.1 * last))
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= last])
    axes.yaxis.set_major_formatter("{x:,.0f}")
