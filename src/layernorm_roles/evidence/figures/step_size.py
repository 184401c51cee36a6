"""Size of attention's input and learning rate of W_Q and W_K: whether one acts as the other."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator

from layernorm_roles.evidence.analysis import step_size
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.attention_by_step import uniform
from layernorm_roles.variants import BUILT_IN

MODELS = {step_size.BYTES: ("byte-level GPT", "byte"), step_size.PAPER: ("GPT at the paper's rate", "token")}
"""By the beginning of the models' names, a title and the unit of their losses."""

LARGE, SMALL = (BUILT_IN[name].colour for name in ("layernorm", "layernorm_shrunk"))
ARMS = {
    "LayerNorm": dict(label="LayerNorm", color=LARGE, ls="-", lw=2.4),
    "restored": dict(label="LayerNorm × 0.028, rate × 35", color=SMALL, ls=(0, (4, 1.5))),
    "slow LayerNorm": dict(label="LayerNorm, rate ÷ 35", color=LARGE, ls=(0, (2.5, 1)), lw=2.4),
    "small": dict(label="LayerNorm × 0.028", color=SMALL, ls=(0, (1, 1.2))),
}
"""Looks of the arms, by their names in `analysis.step_size`."""

APART = 1.04
"""Factor between the places of neighbouring rates in one cluster, so that no point hides another."""


def law(metrics: pd.DataFrame, attention: pd.DataFrame) -> Figure:
    """Draw final losses against size f and against f times the rate factor r, and when attention begins, by arm.

    The tables are language_model_metrics and language_model_attention.
    """
    arms = {start: _arms(metrics, attention, start) for start in MODELS}
    arms = {start: runs for start, runs in arms.items() if len(runs)}
    figure = plt.figure(figsize=(style.PAGE, 5.8 if arms else 3.0))
    above, *below = np.ravel(figure.subfigures(1 + bool(arms), 1, height_ratios=[3, 2.8][: 1 + bool(arms)]))
    _cells(above, step_size.law(metrics, attention))
    for part in below:
        panels = part.subplots(1, len(arms), squeeze=False)[0]
        for axes, (start, runs) in zip(panels, arms.items(), strict=True):
            title, unit = MODELS[start]
            uniform(axes, runs, ARMS, unit)
            axes.set(title=title, xlabel="optimiser steps", xlim=(0, runs.step.max()))
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        present = {*pd.concat(arms.values()).arm}
        style.legend_below(part, [look for name, look in ARMS.items() if name in present], columns=4)
    return figure


def _arms(metrics: pd.DataFrame, attention: pd.DataFrame, start: str) -> pd.DataFrame:
    """The loss increase under uniform attention by step, seed and arm, of models whose names begin with `start`."""
    runs, tables = step_size.runs(metrics, attention, start), [pd.DataFrame(columns=["arm"])]
    for name in ARMS:
        if len(own := step_size.arm(runs, name)):
            by_step = step_size.worth_by_step(attention, own)
            tables.append(
                by_step.melt(ignore_index=False, value_name="zero_scores_worth")
                .reset_index()
                .assign(arm=name)
            )
    return pd.concat(tables[1:] or tables, ignore_index=True)


def _cells(figure: FigureBase, cells: pd.DataFrame) -> None:
    """Draw the final loss of each cell: a curve for each r on the left, and the points by f·r on the right."""
    halves = np.round(2 * np.log10(cells.query_key_rate)).astype(int)
    first, last = halves.min(), halves.max()
    tones = plt.get_cmap("viridis")(np.linspace(0, 0.92, last - first + 1))
    looks = {
        half: dict(
            label=f"{(1, 3)[half % 2] * 10.0 ** (half // 2):g}",
            color=to_hex(tones[half - first]),
            marker="o",
            ms=4,
        )
        for half in sorted({*halves})
    }
    left, right = figure.subplots(1, 2, sharey=True)
    for half, look in looks.items():
        part = cells[halves == half]
        shift = APART ** (half - (first + last) / 2)
        _points(left, part["size"], part, look | dict(lw=1))
        _points(right, part["product"] * shift, part, look | dict(ls=""))
    for axes, x in ((left, "size"), (right, "product")):
        axes.set_xscale("log")
        style.ticks_at(axes, [float(f"{value:.2g}") for value in cells[x]])
    left.set(xlabel="size f of the input of $W_Q$ and $W_K$", ylabel="final validation loss\n(nats per byte)")
    right.set_xlabel("size times rate factor, f · r")
    title = "factor r on the learning rate of $W_Q$ and $W_K$"
    style.legend_below(figure, [look | dict(lw=1) for look in looks.values()], columns=8, title=title)


def _points(axes: Axes, x: pd.Series, cells: pd.DataFrame, look: style.Look) -> None:
    axes.vlines(x, cells.loss_low, cells.loss_high, color=look["color"], lw=1, alpha=0.6)
    axes.plot(x, cells.loss, **look)
