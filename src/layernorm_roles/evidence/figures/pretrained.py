"""Pretrained models: how much attention the keys of each layer's heads can get, beside what they do get."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from layernorm_roles.evidence.analysis.pretrained import THRESHOLDS, by_layer, cut_heads, shares_below
from layernorm_roles.evidence.figures import style
from layernorm_roles.evidence.legends import FRACTIONS
from layernorm_roles.schemas import ANY, AS_USED, CEILING_SHARES, NORM, OWN, WITHOUT_NORM

LOOKS = {
    AS_USED: {"color": "#0072B2", "marker": "o", "ls": "-"},
    WITHOUT_NORM: {"color": "#D55E00", "marker": "s", "ls": "--", "mfc": "white"},
    OWN: {"color": "#9A9A9A"},
}
"""What a key can get with the norm and without it, and what it gets."""

WORDS = {
    AS_USED: "can get, as used",
    WITHOUT_NORM: "could get, keys without the norm",
    OWN: "gets, from the queries of its text",
}
"""The entries of LOOKS in the legend."""

FROM_ANY = "can get from any query, as used"
"""What stands there for keys as used, if it is not known which queries the head can make behind its norm."""

SHARES = (0.01, 0.1, 1)
"""Shares of a query's attention at which the axis of a distribution has its ticks."""

MANY = 12
"""Most layers of which each has a tick, an entry in the legend and a large mark; a page has no room for more."""


def reached(ceilings: pd.DataFrame, model: str) -> Figure:
    """Draw by layer the share of pairs (key, head) that can get and that do get a half, a tenth, a hundredth.

    ceilings: table attention_ceilings. The queries are those behind the norm or, where it is not known, all.
    """
    shares = _of_model(shares_below(ceilings[ceilings.model == model]), model)
    some = shares.contexts >= style.FEWEST
    shares = shares.assign(
        reached=100 - shares.percent, low=100 - shares.high.where(some), high=100 - shares.low.where(some)
    )
    layers = sorted(shares.layer.unique())
    figure, panels = plt.subplots(1, len(THRESHOLDS), figsize=(style.PAGE, 2.55), sharey=True)
    for axes, threshold in zip(panels, THRESHOLDS, strict=True):
        here = shares[shares.threshold == threshold]
        own = here[here.queries == OWN].set_index("layer").reindex(layers)
        axes.bar(layers, own.reached, width=0.6, color=LOOKS[OWN]["color"], alpha=0.6, zorder=0)
        axes.vlines(layers, own.low.clip(lower=0), own.high.clip(upper=100), color=style.GREY, lw=0.9)
        for kind, shift in ((AS_USED, -0.08), (WITHOUT_NORM, 0.08)):
            part = here[(here.queries != OWN) & (here.normalised == kind)]
            x = part.layer + shift
            colour = LOOKS[kind]["color"]
            axes.vlines(x, part.low.clip(lower=0), part.high.clip(upper=100), color=colour, lw=1, alpha=0.7)
            axes.plot(x, part.reached, ms=_mark_size(len(layers)), lw=1.1, clip_on=False, **LOOKS[kind])
        axes.set(xlabel="layer", title=f"at least {FRACTIONS[threshold]} of a query's attention")
        axes.set(xticks=_some(layers), ylim=(0, 103))
    panels[0].set_ylabel("keys in heads (%)")
    style.legend_below(figure, _handles(shares), columns=3)
    return figure


def distribution(ceilings: pd.DataFrame, model: str) -> Figure:
    """Draw for every layer which share of the pairs (key, head) has a ceiling, or gets, no more than x.

    ceilings: table attention_ceilings. The y axis shows log odds, so that a thousandth of the pairs is seen at the
    bottom and at the top.
    """
    pairs = _of_model(by_layer(ceilings[ceilings.model == model]), model)
    layers = sorted(pairs.layer.unique())
    columns, height = (6, 1.25) if len(layers) > MANY else (min(3, len(layers)), 1.7)
    rows = -(-len(layers) // columns)
    size = (style.PAGE, 0.6 + height * rows)
    figure, grid = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(layers) :]:
        axes.set_axis_off()
    for axes, layer in zip(grid.flat, layers, strict=False):
        here = pairs[pairs.layer == layer]
        for kind in LOOKS:
            part = here[(here.queries == OWN) if kind == OWN else _can(here, kind)]
            if len(part):
                percent = 100 * np.stack(part.upper_below).sum(axis=0) / part.pairs.sum()
                axes.plot([*CEILING_SHARES, CEILING_SHARES[-1]], [*percent, 100], **_line(kind))
        axes.set_title(f"layer {layer}", loc="left")
        axes.axvline(0.5, color="0.8", lw=0.7, zorder=0)
        axes.set(xscale="log", xlim=(2e-3, 1.05))
        style.ticks_at(axes, SHARES)
        axes.set_xticklabels([f"{share:g}" for share in SHARES])
        _tails(axes)
    for axes in grid[-1]:
        axes.set_xlabel("share of a query's attention" if len(layers) <= MANY else "attention share")
    for axes in grid[:, 0]:
        axes.set_ylabel("keys in heads (%)\nwith no more")
    style.legend_below(figure, _handles(pairs, lines=True), columns=3)
    return figure


def _of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows of two sets of queries: the context's own, and the one behind the norm or, without it, all."""
    if table.empty:
        raise ValueError(f"attention_ceilings: no rows of {model} to draw")
    best = NORM if (table.queries == NORM).any() else ANY
    return table[table.queries.isin([OWN, best])]


def _can(pairs: pd.DataFrame, kind: str) -> pd.Series:
    return (pairs.queries != OWN) & (pairs.normalised == kind)


def _handles(table: pd.DataFrame, lines: bool = False) -> list:
    """Legend entries of the kinds that the table has, as lines alone or as they are drawn by layer."""
    shown = [kind for kind in LOOKS if kind == OWN or _can(table, kind).any()]
    words = WORDS | ({AS_USED: FROM_ANY} if (table.queries == ANY).any() else {})
    size = _mark_size(table.layer.nunique())
    return [style.mark(words[kind], **(_line(kind) if lines else _mark(kind, size))) for kind in shown]


def _some(layers: list) -> list:
    """The layers that have a tick or an entry in a legend: all if they are few, else at most eight, evenly spaced."""
    return layers if len(layers) <= MANY else layers[:: -(-len(layers) // 8)]


def _mark_size(layers: int) -> float:
    return 4.0 if layers <= MANY else 2.2


def _mark(kind: str, size: float) -> dict:
    return LOOKS[kind] | ({"lw": 5, "alpha": 0.6} if kind == OWN else {"ms": size, "lw": 1.1})


def _line(kind: str) -> dict:
    return {"color": LOOKS[kind]["color"], "ls": LOOKS[kind].get("ls", "-"), "lw": 1.2}


_TICKS = (0.1, 1, 10, 50, 90, 99, 99.9)
"""Per cent at which the axis of a distribution has its ticks."""


def _tails(axes: Axes) -> None:
    """Let the y axis show per cent by their log odds, so that both tails have room."""

    def odds(percent):
        share = np.clip(np.asarray(percent) / 100, 1e-6, 1 - 1e-6)
        return np.log(share / (1 - share))

    axes.set_yscale("function", functions=(odds, lambda value: 100 / (1 + np.exp(-value))))
    axes.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0.05, 99.95)


def cut(keys: pd.DataFrame, model: str) -> Figure:
    """Draw the share of unselectable keys in the heads of each layer, by how many principal components are left.

    keys: table pretrained_keys. The dashed line is the exact expectation for as many Gaussian keys.
    """
    shares = cut_heads(keys[keys.model == model])
    if shares.empty:
        raise ValueError(f"pretrained_keys: no heads of {model} to draw")
    layers = sorted(shares.layer.unique())
    tones = plt.get_cmap("viridis")(np.linspace(0.05, 0.9, len(layers)))
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.7))
    dimensions = sorted(shares.dimensions.unique())
    gaussian = shares.groupby("dimensions").gaussian_percent.mean()
    least = 0.5 * min([p for p in shares.percent if p > 0], default=0.01)
    shares = shares.assign(
        low=shares.low.where(shares.contexts >= style.FEWEST),
        high=shares.high.where(shares.contexts >= style.FEWEST),
    )
    for axes, bottom in zip(panels, (0.0, least), strict=True):
        axes.plot(gaussian.index, gaussian, color="black", ls="--", lw=1.1, zorder=3)
        for layer, tone in zip(layers, tones, strict=True):
            part, colour = shares[shares.layer == layer].set_index("dimensions"), to_hex(tone)
            some = part.percent > 0
            axes.plot(part.index, part.percent.where(some | (bottom == 0)), color=colour, lw=1.1)
            axes.plot(part.index[some], part.percent[some], ls="", marker="o", ms=3.2, color=colour)
            look = {"marker": "v", "ms": 3.2, "mfc": "white", "mec": colour}
            axes.plot(part.index[~some], [bottom] * (~some).sum(), ls="", clip_on=False, **look)
            axes.vlines(
                part.index, part.low.clip(lower=bottom), part.high.clip(upper=100), color=colour, lw=0.7
            )
        axes.set(xlabel="principal components left of a head's keys", xscale="log")
        style.ticks_at(axes, dimensions)
    panels[0].set(ylabel="unselectable keys (%)", ylim=(-2, 102))
    panels[1].set(yscale="log", ylim=(least, 130))
    n = shares.n_keys
    size = f"{n.min():,}" if n.min() == n.max() else f"{n.min():,} to {n.max():,}"
    colours = dict(zip(layers, map(to_hex, tones), strict=True))
    handles = [style.mark(f"layer {layer}", color=colours[layer]) for layer in _some(layers)]
    handles.append(style.mark(f"{size} Gaussian keys", color="black", ls="--", lw=1.1))
    handles.append(style.mark("none", ls="", marker="v", ms=3.2, mfc="white", mec=style.GREY))
    style.legend_below(figure, handles, columns=8)
    return figure
