"""Size of attention's input and learning rate of W_Q and W_K: the law that one acts as the other."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis import step_size
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.figures.attention_by_step import uniform
from layernorm_roles.variants import BUILT_IN, SHRUNK

MODELS = {
    "step_size_bytes": ("shrunk_qk", "byte-level GPT", "byte"),
    "step_size_paper": ("layernorm_shrunk", "GPT at the paper's rate", "token"),
}
"""By the beginning of the models' names, the variant of LayerNorm that is small, a title, and the unit of a loss."""

LAYERNORM = dict(color=BUILT_IN["layernorm"].colour)
SMALL = dict(color=BUILT_IN["layernorm_shrunk"].colour)
ARMS = {
    (False, 0): LAYERNORM | dict(label="LayerNorm", ls="-"),
    (False, -1): LAYERNORM | dict(label="LayerNorm, rate ÷ 35", ls="--"),
    (True, 0): SMALL | dict(label="LayerNorm × 0.028", ls="--"),
    (True, 1): SMALL | dict(label="LayerNorm × 0.028, rate × 35", ls="-"),
}
"""Looks of the arms below, by whether LayerNorm's output is small and by which power of 35 the rate is multiplied.
Lines that the law expects to attend are solid."""


def law(metrics: pd.DataFrame, attention: pd.DataFrame) -> Figure:
    """Draw final losses against size f and against f times the rate factor r, and when attention begins, by arm.

    The tables are language_model_metrics and language_model_attention, of which models of step_size_bytes and
    step_size_paper are drawn.
    """
    cells = step_size.law(metrics, attention)
    arms = {start: _arms(attention[attention.model.str.startswith(start)], start) for start in MODELS}
    arms = {start: runs for start, runs in arms.items() if len(runs)}
    figure = plt.figure(figsize=(style.PAGE, 2.9 + 2.5 * (len(arms) > 0)))
    above, below = (
        figure.subfigures(2, 1, height_ratios=[2.9, 2.5]) if arms else (figure.subfigures(1, 1), None)
    )
    halves = np.round(2 * np.log10(cells.query_key_rate)).astype(int)
    tones = plt.get_cmap("viridis")(np.linspace(0, 0.92, halves.max() - halves.min() + 1))
    looks = {
        half: dict(label=f"{(1, 3)[half % 2] * 10.0 ** (half // 2):g}", color=tones[half - halves.min()])
        for half in sorted({*halves})
    }
    panels = above.subplots(1, 2, sharey=True)
    for axes, x in zip(panels, ("size", "product"), strict=True):
        for half, look in looks.items():
            part = cells[halves == half].sort_values(x)
            axes.vlines(part[x], part.loss_low, part.loss_high, color=look["color"], lw=1, alpha=0.6)
            axes.plot(
                part[x], part.loss, marker="o", ms=4, lw=1, ls="-" if x == "size" else "", color=look["color"]
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
    panels[0].set(xlabel="size f of the input of W_Q and W_K", title="by size")
    panels[0].set_ylabel("final validation loss\n(nats per byte)")
    panels[1].set(xlabel="f · r", title="by size times rate")
    style.legend_below(
        above, style.each(looks, marker="o", ms=4, lw=1).values(), columns=8,
        title="factor r on the learning rate of W_Q and W_K",
    )  # fmt: skip
    for axes, (start, runs) in zip(
        below.subplots(1, len(arms), squeeze=False)[0] if arms else (), arms.items(), strict=True
    ):
        _, title, unit = MODELS[start]
        uniform(axes, runs, ARMS, unit)
        axes.set(title=title, xlabel="optimiser steps", xlim=(0, runs.step.max()))
    return figure


def _arms(attention: pd.DataFrame, start: str) -> pd.DataFrame:
    """The rows of whole models of language_model_attention in ARMS, whose keys are in the column `arm`."""
    small, powers = MODELS[start][0], -np.log(attention.query_key_rate) / np.log(SHRUNK)
    near = (
        attention.layer.isna()
        & attention.variant.isin(["layernorm", small])
        & np.isclose(powers, powers.round(), atol=0.01)
    )
    arms = list(zip(attention.variant == small, powers.round().astype(int), strict=True))
    chosen = attention.assign(arm=pd.Series(arms, index=attention.index, dtype=object))[near]
    return chosen[chosen.arm.isin(ARMS)]
