"""Pretrained models: how much attention the keys of each layer's heads can get, beside what they do get."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis.pretrained import ones_ratios, shares_below
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import FRACTIONS, LEAST_FOR_INTERVAL, PRETRAINED, in_words
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

LOOKS = {
    AS_USED: dict(label="can get, as used", color=style.BLUE, marker="o", lw=1.1),
    WITHOUT_NORM: dict(label="could get, keys without the norm", color=style.VERMILION, marker="s", lw=1.1),
}
LOOKS[WITHOUT_NORM] |= dict(ls="--", mfc="white")
GETS = dict(label="gets, from the queries of its text", color="#9A9A9A", alpha=0.6)
"""Looks of the lines for the most attention that keys can get, as the model uses them and made without the norm, and of
the bars for the most that they do get from the queries of their text."""

TRAINED = {
    True: dict(label="trained", color=style.BLUE, ls="-", lw=1.1),
    False: dict(label="untrained", color=style.VERMILION, ls="--", lw=1.1),
}
RANDOM = dict(label="a random direction", color="black", ls=":", lw=1.0)
"""Looks of a trained model, of a network of its architecture with freshly drawn weights, and of lines that are of a
random direction in place of the ones vector."""


def reached(ceilings: pd.DataFrame) -> Figure:
    """Draw by layer how many (key, head) pairs can get, and do get, ½, 1/10 or 1/100 of a query's attention, in %.

    `ceilings` is the table attention_ceilings; each model has a row of panels. What a key can get is from any query
    that the head can compute from outputs of its norm, or from any vector for models whose table lacks such ceilings.
    """
    shares = shares_below(ceilings)
    few = shares.contexts < LEAST_FOR_INTERVAL
    low, high = ((100 - end).clip(0, 100).mask(few) for end in (shares.high, shares.low))
    shares = shares.assign(reached=100 - shares.percent, low=low, high=high)
    models = [*dict.fromkeys(shares.model)]
    size = (style.PAGE, 0.35 + 2.2 * len(models))
    figure, grid = plt.subplots(len(models), len(FRACTIONS), figsize=size, squeeze=False, sharey=True)
    for panels, model in zip(grid, models, strict=True):
        of_model = shares[shares.model == model]
        best = NORM if (of_model.queries == NORM).any() else ANY
        layers = sorted(of_model.layer.unique())
        every = 1 if len(layers) <= 12 else -(-len(layers) // 8)  # of more layers at most eight have a tick
        marks = dict(ms=4.0 if every == 1 else 2.2, clip_on=False)
        for axes, (threshold, fraction) in zip(panels, FRACTIONS.items(), strict=True):
            here = of_model[of_model.threshold == threshold]
            own, here = here[here.queries == OWN], here[here.queries == best]
            axes.bar(own.layer, own.reached, width=0.6, zorder=0, **GETS)
            axes.vlines(own.layer, own.low, own.high, color=style.GREY, lw=0.9)
            for kind, shift in ((AS_USED, -0.08), (WITHOUT_NORM, 0.08)):
                part, look = here[here.normalised == kind], LOOKS[kind] | marks
                x = part.layer + shift
                axes.vlines(x, part.low, part.high, color=look["color"], lw=1, alpha=0.7)
                axes.plot(x, part.reached, **look)
            axes.set(xlabel="layer", title=f"at least {fraction} of a query's attention")
            axes.set(xticks=layers[::every], ylim=(0, 103))
        asked = "" if best == NORM else ", any query"
        panels[0].set_ylabel(f"{PRETRAINED.get(model, model)}{asked}:\nkeys in heads (%)")
    entries = [LOOKS[kind] for kind in LOOKS if kind in {*shares.normalised}]
    style.legend_below(figure, [*entries, GETS | dict(lw=5)], columns=3)
    return figure


def projection(
    ones: pd.DataFrame, own: pd.DataFrame, shifts: pd.DataFrame, settings: Mapping[str, Any]
) -> Figure:
    """Draw the share of norms' inputs along the ones vector, and how far attention moves if projection is toggled.

    Each pretrained model has a row of panels; below is one of our own GPTs with LayerNorm. The tables are ones_share,
    language_model_ones_share and projection_shift, on projections left out or added.
    """
    several = own.groupby("model").variant.transform("nunique") > 1
    own = ones_ratios(own[several & (own.variant == "layernorm")])
    own = own.assign(trained=own.checkpoint == "final")
    names = own.model.unique()
    tones = plt.get_cmap("viridis")(np.linspace(0.05, 0.8, len(names)))
    colours = dict(zip(names, map(to_hex, tones), strict=True))
    models = [*dict.fromkeys(shifts.model)]
    figure, grid = plt.subplots(len(models) + 1, 2, figsize=(style.PAGE, 2.5 + 2.1 * len(models)))
    below, moves = grid[-1, 0], grid[:-1, 1]
    below.set_subplotspec(below.get_gridspec()[-1, :])
    grid[-1, 1].remove()
    for (left, right), model in zip(grid[:-1], models, strict=True):
        ratios = ones_ratios(ones[ones.model == model])
        ratios = ratios.assign(trained=ratios.checkpoint != "random")
        style.lines(left, ratios, "trained", TRAINED, "norm", "ratio", geometric=True)
        left.set_title(PRETRAINED.get(model, model))
        moved = shifts[shifts.model == model]
        for column, look in {"total_variation": TRAINED[True], "random_direction": RANDOM}.items():
            heads = moved.groupby(["layer", "context"], as_index=False)[column].mean()
            style.line(right, heads, "layer", column, **look)
        right.set(xlabel="layer", ylabel="fraction of attention\nmass that moves")
        right.set_title(f"{PRETRAINED.get(model, model)}, projection {moved.change.iloc[0]}")
    plt.setp(moves, ylim=(0, 1.1 * style.heights(*moves).max()))
    for name, colour in colours.items():
        looks = style.each(TRAINED, color=colour)
        style.lines(below, own[own.model == name], "trained", looks, "norm", "ratio", geometric=True)
    below.set_title("our GPTs with LayerNorm")
    for axes in (*grid[:-1, 0], below):
        axes.axhline(1, **RANDOM)
        axes.set(xlabel="norm, in the model's order")
        axes.set_ylabel("share along the ones vector,\ntimes a random direction's")
        style.logarithmic(axes)
    entries = [*style.each(TRAINED, color=style.GREY).values(), RANDOM]
    for name, colour in colours.items():
        entries.append(TRAINED[True] | dict(label=in_words(name, settings), color=colour))
    style.legend_below(figure, entries, columns=3)
    return figure
