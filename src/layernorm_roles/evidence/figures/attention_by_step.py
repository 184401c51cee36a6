"""Language models while they train: losses, what attention adds, and when runs begin to attend."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.attention_by_step import EARLY, ONSET, dose, onsets
from layernorm_roles.evidence.analysis.majority import steps_to_reach
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.language_model import GAP, LOSSES, differences
from layernorm_roles.variants import BUILT_IN, MATCHED_VARIANT, NO_ATTENTION_VARIANT

COMPARED = ("layernorm", "layernorm_shrunk", "projection", "projection_grown", NO_ATTENTION_VARIANT)
"""The variants that the figure `paper_rate` shows: with and without scaling, large and small, and no attention."""


def paper_rate(metrics: pd.DataFrame, attention: pd.DataFrame, model: str) -> Figure:
    """Draw losses and attention of a language model's variants against the optimiser steps.

    Panels show differences of losses from LayerNorm's (nats per token), the loss added by setting all scores to 0, and
    the standard deviation of scores over keys. `metrics` is the table language_model_metrics, `attention` the table
    language_model_attention. COMPARED has the variants drawn: with scaling, without it, without attention.
    """
    shown = "model == @model and variant in @COMPARED and step > 0"
    runs, of_model = metrics.query(shown), attention.query(shown)
    worth = of_model[of_model.layer.isna() & (of_model.variant != NO_ATTENTION_VARIANT)]
    deviations = of_model.groupby(["variant", "seed", "step"]).score_deviation.mean().dropna().reset_index()
    figure, (above, below) = plt.subplots(2, 2, figsize=(style.PAGE, 5.2), sharex=True)
    looks = style.looks_of(runs.variant)
    for axes, (column, words) in zip(above, LOSSES.items(), strict=True):
        differences(axes, runs, column, looks, at_the_end=True)
        axes.set_title(words)
    style.lines(below[0], worth, "variant", looks, "step", "zero_scores_worth", spread="seeds")
    style.lines(below[1], deviations, "variant", looks, "step", "score_deviation", spread="seeds")
    below[0].set(title="loss that equal attention adds", xlabel="optimiser steps")
    below[0].set_yscale("symlog", linthresh=1e-3)
    below[0].set_ylabel("loss with all scores 0 − loss\n(nats per token)")
    below[1].set(title="deviation of a query's scores over keys", xlabel="optimiser steps", yscale="log")
    below[1].set_ylabel("standard deviation,\nmean over layers")
    style.legend_below(figure, style.counted(looks, runs), columns=3, further=[GAP])
    return figure


DOSES = {
    kind: dict(label=words, color=BUILT_IN[kind].colour, marker=marker, ls="")
    for kind, words, marker in (
        ("layernorm", "LayerNorm × constant", "o"),
        ("projection", "projection × constant", "s"),
        ("scale", "scaling × constant", "o"),
        (MATCHED_VARIANT, BUILT_IN[MATCHED_VARIANT].label, "D"),
        ("shrunk_qk", "LayerNorm, × 0.028 for QK alone", "<"),
        ("shrunk_v", "LayerNorm, × 0.028 for V alone", ">"),
    )
}
"""Looks of the marks of runs in the figure `dose_response`, by variant or by the norm of which it is a multiple."""
DOSES[MATCHED_VARIANT]["color"] = "#882255"  # the variant's own is too near projection's for single marks

SIZES, SHIFTS = ("d8", "sizes"), {"layernorm": 0.95, "scale": 1.05}
"""The majority experiments, equal but for their variants, in which layernorm and scale have several sizes, and the
factors by which marks are moved along the x axis, so that none hides another."""


def dose_response(
    attention: pd.DataFrame, metrics: pd.DataFrame, norms: Mapping[str, Any], model: str
) -> Figure:
    """Draw the step at which each run begins to attend against the root mean square of attention's input.

    `attention` is the table language_model_attention, of which `model` is drawn. A second panel shows steps to a test
    loss in the majority task (experiments d8 and sizes of `metrics`, table majority_metrics) against the input's size
    over LayerNorm's. Hollow marks are runs that never get there. `norms` is the section norms of the settings.
    """
    begun = onsets(attention[attention.model == model])
    kinds = [v if v in DOSES else getattr(dose(v, norms), "family", None) for v in begun.variant]
    begun = begun.assign(kind=kinds).dropna(subset="kind")
    learnt = steps_to_reach(metrics[metrics.experiment.isin(SIZES)], [TEST_LOSS])
    doses = [dose(run.variant, norms, run.d_model) or (None, np.nan) for run in learnt.itertuples()]
    learnt = learnt.join(pd.DataFrame(doses, columns=["kind", "size"], index=learnt.index))
    learnt = learnt[learnt.kind.isin(SHIFTS)]
    learnt = learnt.assign(place=learnt["size"] * learnt.kind.map(SHIFTS))
    size = (style.PAGE if len(learnt) else style.COLUMN, 3.6)
    figure, (panels,) = plt.subplots(1, 1 + (len(learnt) > 0), figsize=size, squeeze=False)
    _marks(panels[0], begun, "input_rms", "onset")
    panels[0].set_title(f"{model}, {style.number_of([len(begun)], 'run')}")
    early = EARLY * begun.steps.max()
    panels[0].set_xlabel(f"root mean square of the input of Q and K\nat step {early:,.0f}")
    panels[0].set_ylabel(f"first step at which equal attention\nadds {ONSET:g} nats per token")
    for axes in panels[1:]:
        _marks(axes, learnt, "place", "steps")
        axes.set_title(f"majority task, {style.number_of([len(learnt)], 'run')}")
        axes.set(xlabel="size relative to LayerNorm’s", ylabel=f"steps to a test loss of {TEST_LOSS:g}")
        style.ticks_at(axes, learnt["size"])
    style.legend_below(figure, [], columns=3, further=DOSES.values())
    return figure


def _marks(axes: Axes, runs: pd.DataFrame, x: str, y: str) -> None:
    """Draw a mark for each run at its columns `x` and `y`; where `y` is NaN it is hollow, above the last step."""
    last, late = runs.last_step.max(), runs[runs[y].isna()]
    height = last * (1.06 + 0.035 * late.groupby(np.log10(late[x]).round(1)).cumcount())
    for kind, part in runs.groupby("kind"):
        look = DOSES[kind] | dict(ms=5)
        there, never = part.dropna(subset=y), part[part[y].isna()]
        axes.plot(there[x], there[y], alpha=0.5, **look)
        axes.plot(never[x], height[never.index], mfc="none", **look)
    axes.axhline(1.02 * last, color=style.GREY, lw=0.6, ls=":")
    place = dict(xy=(1, 1.015 * last), xycoords=("axes fraction", "data"), ha="right", va="top")
    axes.annotate(f"not by step {int(last):,}", fontsize=7, color=style.GREY, **place)
    axes.set(xscale="log", ylim=(0, max([1.06 * last, *height]) + 0.04 * last))
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= last])
    axes.yaxis.set_major_formatter("{x:,.0f}")
