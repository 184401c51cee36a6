"""Unselectable keys in the heads of the language models, and how much attention their keys can get."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis import heads as numbers
from layernorm_roles.evidence.analysis.language_model import CHECKPOINTS, unselectable_shares
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import FRACTIONS, LEAST_FOR_INTERVAL, LEGENDS, in_words
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import ANY, NORM
from layernorm_roles.variants import PAPER_SCALING, QUERY_KEY_VARIANT

SITES = {
    "attention input": ("after_norm", False, 1),
    "heads, among all keys": ("head", False, 0),
    "heads, among earlier keys": ("head", True, 0),
}
"""Panels of the figure `heads`, by title: site of the keys, whether rivals come before, dimensions projected out."""

RIVALS = {False: "all keys of the context", True: "earlier keys only"}
"""What titles call the rivals of a key, by whether these are only the keys before it."""

SHARES = dict(zip(FRACTIONS, (style.GREEN, style.PURPLE, "#7F7F7F"), strict=True))
SIZES = (style.BLUE, style.VERMILION, style.ORANGE, "#56B4E9")
"""Colours for the shares of a query's attention that a key may get, and for lengths of contexts, the shortest first."""

GAUSSIAN = dict(label="as many Gaussian keys", color="#808080", lw=0.9, ls="--")
"""Look of the line at the expected share of unselectable keys among as many Gaussian keys."""

UNTRAINED, TRAINED = CHECKPOINTS
POINTS = style.each({UNTRAINED: dict(mfc="white"), TRAINED: {}}, marker="o", ms=3.4, ls="", mew=0.8, zorder=3)
GREY_POINTS = [
    look | dict(label=word, color=style.GREY)
    for word, look in zip(("untrained", "trained"), POINTS.values(), strict=True)
]
SIDES = {UNTRAINED: -1, TRAINED: 1}
"""Looks of points for shares of unselectable keys by checkpoint (hollow before training), their entries in a legend,
and on which side of a place on the x axis such a point stands: left (-1) or right (1)."""

IN_HEADS = {*PAPER_SCALING, QUERY_KEY_VARIANT}
"""The built-in variants that the figure `heads` shows."""


FEW = 1
"""Per cent of keys: a model with at most so many unselectable keys in every panel is named and not drawn."""


def heads(keys: pd.DataFrame, settings: Mapping[str, Any]) -> Figure:
    """Draw the percentage of unselectable keys by layer, untrained and trained, at attention's input and in heads.

    `keys` is the table key_selectability, of which long contexts are drawn. Each language model has a row of panels,
    but for models with LayerNorm alone. Means are over heads, contexts and seeds.
    """
    keys, models, few = keys[keys.texts == "long"], {}, {}
    for model, part in keys[keys.site == "head"].groupby("model", sort=False):
        if len(variants := [*part.variant.unique()]) > 1 or "layernorm" not in variants:
            variants = [v for v in variants if v in IN_HEADS or v not in LEGENDS] or variants
            sites = keys[(keys.model == model) & keys.variant.isin(variants)]
            panels = {
                each: sites[(sites.site == each[0]) & (sites.causal == each[1])] for each in SITES.values()
            }
            shares = {each: unselectable_shares(here, each[1]) for each, here in panels.items() if len(here)}
            most = max(each.percent.max() for each in shares.values())
            (models if most > FEW else few)[model] = variants, panels, shares
    models = models or few
    size = (style.PAGE, 2.1 * len(models) + 0.9)
    figure, grid = plt.subplots(len(models), len(SITES), figsize=size, sharey="row", squeeze=False)
    looks = style.looks_of({variant for variants, *_ in models.values() for variant in variants})
    for row, (model, (variants, panels, shares)) in zip(grid, models.items(), strict=True):
        for axes, (title, site) in zip(row, SITES.items(), strict=True):
            if site not in shares:
                axes.set_axis_off()
                continue
            _layers(axes, shares[site], {v: looks[v] for v in looks if v in variants})
            here = panels[site]
            axes.axhline(numbers.gaussian_percent(here, fewer=site[2]), zorder=0, **GAUSSIAN)
            size = f"d = {here.dimensions.max()}, {style.number_of(here.n_keys, 'key')}"
            axes.set(title=f"{title}\n{size}", ylim=(-4, 104), xticks=sorted(here.layer.unique()))
        row[0].set_ylabel(
            in_words(model, settings).replace(", learning", ",\nlearning") + "\nunselectable keys (%)"
        )
    for axes in grid[-1]:
        axes.set_xlabel("layer")
    entries = style.counted(style.each(looks, **POINTS[TRAINED]), keys[keys.model.isin(models)])
    others = [in_words(model, settings) for model in few if model not in models]
    note = f"not drawn, at most {FEW} % everywhere: {'; '.join(others)}" if others else ""
    style.legend_below(figure, [*entries, *GREY_POINTS, GAUSSIAN], columns=3, title=note)
    return figure


def _layers(axes: Axes, shares: pd.DataFrame, looks: style.Looks) -> None:
    """Draw each variant's shares side by side around the number of the layer, untrained before trained."""
    for number, (variant, look) in enumerate(looks.items()):
        for checkpoint, point in POINTS.items():
            part = shares[(shares.variant == variant) & (shares.checkpoint == checkpoint)]
            x = part.layer + 0.8 / len(looks) * (number - (len(looks) - 1) / 2 + 0.18 * SIDES[checkpoint])
            axes.vlines(x, part.low.clip(lower=0), part.high.clip(upper=100), color=look["color"], lw=0.8)
            axes.plot(x, part.percent, color=look["color"], **point)


def by_width(keys: pd.DataFrame, ceilings: pd.DataFrame) -> Figure:
    """Draw, by width of a head, the % of keys that are unselectable, or that can get much of a query's attention.

    LayerNorm models are drawn. The tables are key_selectability and language_model_ceilings.
    """
    shares, reach = numbers.by_width(keys), numbers.shares_reached(ceilings[ceilings.variant == "layernorm"])
    alike: dict[
        int, int
    ] = {}  # contexts whose mean lengths differ by less than a hundredth count as equally long
    for n in sorted(shares.n_keys.unique()):
        alike[n] = next((other for other in alike.values() if n < 1.01 * other), n)
    shares = shares.assign(n_keys=shares.n_keys.map(alike))
    figure, (above, below) = plt.subplots(2, 2, figsize=(style.PAGE, 5.6), sharex=True, sharey="row")
    colours = dict(zip(sorted(shares.n_keys.unique()), cycle(SIZES)))
    laws = {n: dict(label=f"{n:,} Gaussian keys", color=colours[n], ls="--", lw=1.0) for n in colours}
    for axes, causal in zip(above, RIVALS, strict=True):
        _unselectable(axes, shares, causal, laws)
    entries = [*laws.values(), *GREY_POINTS, *_reach(below, reach[reach.checkpoint == TRAINED])]
    for axes in (*above, *below):
        axes.set(xscale="log", ylim=(-4, 104))
        style.ticks_at(axes, shares.d_head)
    for axes in below:
        axes.set_xlabel("width of a head, d_head")
    above[0].set_ylabel("unselectable keys (%)")
    below[0].set_ylabel("keys that can get\nso much attention (%)")
    title = f"means over {style.number_of([*shares.seeds, *reach.seeds], 'seed')}"
    style.legend_below(figure, entries, columns=4, title=title)
    return figure


def _unselectable(axes: Axes, shares: pd.DataFrame, causal: bool, laws: style.Looks) -> None:
    """Draw the result of `analysis.heads.by_width`, and the law of Gaussian keys with its look for a number of keys."""
    dimensions = range(max(1, shares.d_head.min() - 1), shares.d_head.max() + 3)
    for n, look in laws.items():
        law = [100 * expected_unselectable(int(n), d, causal) / n for d in dimensions]
        axes.plot(dimensions, law, zorder=1, **look)
    for row in shares[shares.causal == causal].itertuples():
        x = row.d_head * (1.02 + 0.025 * row.layer) ** SIDES[row.checkpoint]  # the first layer first
        colour = laws[row.n_keys]["color"]
        if row.seeds >= LEAST_FOR_INTERVAL:
            axes.vlines(x, row.low, row.high, color=colour, lw=0.8)
        axes.plot(x, row.percent, color=colour, **POINTS[row.checkpoint])
    axes.set_title(f"unselectable among {RIVALS[causal]}")


def _reach(panels: Iterable[Axes], shares: pd.DataFrame) -> list[dict[str, Any]]:
    """Draw the shares of keys that can get a part of a query's attention; return the legend's entries.

    Each number of keys has a marker; the fewest have no entry of their own.
    """
    markers = dict(zip(sorted(shares.n_keys.unique()), "os^D" * len(shares), strict=False))
    thin = dict(lw=0.9, ms=3.4)
    words = {ANY: "any vector", NORM: "any query from an output of the norm"}
    for axes, (queries, title) in zip(panels, words.items(), strict=True):
        here = shares[shares.queries == queries].sort_values("d_head")
        for (threshold, n), part in here.groupby(["threshold", "n_keys"]):
            axes.plot(part.d_head, part.percent, marker=markers[n], color=SHARES[threshold], **thin)
            some = part[part.seeds >= LEAST_FOR_INTERVAL]
            axes.vlines(some.d_head, some.low, some.high, color=SHARES[threshold], lw=thin["lw"])
        axes.set_title(f"query: {title}")
    entries = [
        dict(label=f"at least {FRACTIONS[threshold]}, trained", color=colour, marker="o", **thin)
        for threshold, colour in SHARES.items()
    ]
    for n, marker in [*markers.items()][1:]:
        entries.append(dict(label=f"the same of {n:,} keys", color=style.GREY, marker=marker, **thin))
    return entries
