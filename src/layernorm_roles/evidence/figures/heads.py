"""Unselectable keys in the heads of the language models, and at their attention input."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from layernorm_roles.evidence.analysis import heads as numbers
from layernorm_roles.evidence.analysis.language_model import CHECKPOINTS
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.pretrained import THRESHOLDS
from layernorm_roles.evidence.figures import colours, style
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import ANY, NORM

HEAD = ["site", "causal", "layer", "head"]
"""Columns that name a place in the model, and the rivals of a key there, whose mean share is drawn."""

REFERENCES = (
    ("head", False, "Gaussian keys, d_head", 0, "--"),
    ("head", True, "Gaussian, among those before, d_head", 0, "-."),
    ("after_norm", False, "Gaussian keys, d_model − 1", 1, ":"),
)
"""Gaussian references: the site, whether the rivals are the keys before, what the line is called, how many dimensions
projection takes, and the style of the line."""


SHARE_COLOURS = dict(zip(THRESHOLDS, ("#0072B2", "#E69F00", "#7F7F7F"), strict=True))
"""Colours of the shares of attention that a key can get or not, the largest first."""

SIZE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Colours of contexts by their number of keys, the fewest first."""


def heads(keys: pd.DataFrame, model: str, variants: Sequence[str]) -> Figure:
    """Draw the share of unselectable keys in each head (points) and at the attention input (bars) by layer.

    keys: table key_selectability, of which the long contexts of `model` are drawn, at both checkpoints. A head has a
    point for the share among all keys of a context, and a triangle for the one among the keys before each key.
    """
    of_model = keys[(keys.model == model) & (keys.texts == "long")]
    chosen = of_model[of_model.variant.isin(variants)]
    chosen = chosen.assign(share=100 * chosen.n_unselectable / chosen.n_keys)
    present = legend_order(chosen.variant)
    if not present:
        raise ValueError(f"key_selectability: none of the variants {list(variants)} of {model} to draw")
    palette = colours.palette(present)
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 3.0), sharey=True)
    gaussian, room = _references(chosen), 0.78 / len(present)
    for axes, checkpoint in zip(panels, CHECKPOINTS, strict=True):
        for _, share, look in gaussian:
            axes.axhline(share, zorder=0, **look)
        for i, variant in enumerate(present):
            part = chosen[(chosen.checkpoint == checkpoint) & (chosen.variant == variant)]
            shift = room * (i - (len(present) - 1) / 2)
            _layers(axes, part, shift, room, palette[variant])
        axes.set(title=f"{checkpoint} weights", xlabel="layer", xticks=sorted(chosen.layer.unique()))
    top = max(chosen.groupby([*HEAD, "variant", "checkpoint"], dropna=False).share.mean().max(), 1.0)
    top = max([top, *(share for _, share, _ in gaussian if share < 2 * top)])
    panels[0].set_ylim(-0.04 * top, 1.04 * top if top < 50 else 104)
    panels[0].set_ylabel("unselectable keys (%)")
    few, most = chosen.n_keys.min(), chosen.n_keys.max()
    n = f"n = {few:,} to {most:,} keys" if few < most else f"n = {few:,} keys"
    sizes = [
        f"{name} = {_dimensions(chosen, site)}"
        for site, name in (("after_norm", "d_model"), ("head", "d_head"))
    ]
    figure.suptitle(f"{model}: {', '.join(sizes)}, {n} in a context", fontsize=8)
    seeds = chosen.groupby("variant").seed.nunique()
    handles = [
        style.mark(colours.counted(colours.label(name), seeds[name]), color=palette[name], lw=4)
        for name in present
    ]
    handles.append(style.mark("attention input", color=style.GREY, lw=2))
    look = {"marker": "o", "markersize": 4, "ls": "", "markeredgecolor": style.GREY}
    handles.append(style.mark("in a head, among all keys", color=style.GREY, **look))
    if chosen.causal.any():
        before = {"marker": "v", "markersize": 4, "ls": ""}
        handles.append(style.mark("in a head, among those before", color=style.GREY, **before))
    if (chosen.site == "head_exact").any():
        handles.append(style.mark("in a head, QK-norm with eps = 0", color="white", **look))
    handles += [style.mark(name, **look) for name, _, look in gaussian]
    style.legend_below(figure, handles, columns=4)
    return figure


def _dimensions(keys: pd.DataFrame, site: str) -> int:
    return int(keys.dimensions[keys.site == site].iloc[0])


def _references(keys: pd.DataFrame) -> list[tuple[str, float, dict]]:
    """Name, per cent and look of the lines for Gaussian keys: as many as in a context, in a head and at its input."""
    found, n = [], round(keys.n_keys.mean())
    for site, causal, name, taken, stroke in REFERENCES:
        if not ((keys.site == site) & (keys.causal == causal)).any():
            continue
        d = _dimensions(keys, site) - taken
        share = 100 * expected_unselectable(n, d, causal) / n
        found.append((f"{name} = {d}", share, {"color": "#808080", "lw": 0.9, "ls": stroke}))
    return found


def _layers(axes: Axes, part: pd.DataFrame, shift: float, room: float, colour: str) -> None:
    """Draw one variant's mean shares in the `room` around every layer's number, `shift` to the right of it."""
    for layer, here in part.groupby("layer"):
        x = layer + shift
        bar = here.share[here.site == "after_norm"].mean()
        axes.hlines(bar, x - 0.45 * room, x + 0.45 * room, color=colour, linewidth=2)
        for site, causal, marker, face in (
            ("head", False, "o", colour),
            ("head", True, "v", colour),
            ("head_exact", False, "o", "white"),
        ):
            points = here[(here.site == site) & (here.causal == causal)].groupby("head").share.mean()
            # Side by side, because the two shares of a head may differ by less than a mark's height.
            places = x + room * ((0.25 if causal else -0.25) + np.linspace(-0.19, 0.19, len(points)))
            look = {"s": 13, "marker": marker, "color": face, "edgecolor": colour, "linewidth": 0.8}
            axes.scatter(places, points, **look, zorder=3)


def by_width(keys: pd.DataFrame) -> Figure:
    """Draw the share of unselectable keys in the heads by their width, among all keys and among those before.

    keys: table key_selectability, of which the heads of the models with LayerNorm are drawn, in the long contexts: a
    point for every layer, untrained and trained. Lines are the exact expectation for as many Gaussian keys.
    """
    shares = numbers.by_width(keys)
    if shares.empty:
        raise ValueError("key_selectability: no heads of models with LayerNorm to draw")
    sizes = sorted(shares.n_keys.unique())
    tones = {n: SIZE_COLOURS[i % len(SIZE_COLOURS)] for i, n in enumerate(sizes)}
    widths = sorted(shares.d_head.unique())
    dimensions = range(max(1, widths[0] - 1), widths[-1] + 3)
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.9), sharey=True)
    for axes, causal in zip(panels, (False, True), strict=True):
        for n, tone in tones.items():
            law = [100 * expected_unselectable(int(n), d, causal) / n for d in dimensions]
            axes.plot(dimensions, law, color=tone, lw=1.0, ls="--", zorder=1)
        for row in shares[shares.causal == causal].itertuples():
            trained, tone = row.checkpoint == CHECKPOINTS[-1], tones[row.n_keys]
            # Untrained left of the width and trained right of it, the first layer first.
            x = row.d_head * (1.02 + 0.025 * row.layer) ** (1 if trained else -1)
            if row.seeds >= style.FEWEST:
                axes.vlines(x, row.low, row.high, color=tone, lw=0.8)
            axes.plot(x, row.percent, color=tone, **_look(trained))
        words = "the keys before them alone" if causal else "all keys of the context"
        axes.set(xscale="log", xlabel="width of a head, d_head", title=f"among {words}")
        style.ticks_at(axes, widths)
    panels[0].set(ylabel="unselectable keys (%)", ylim=(-4, 104))
    handles = [style.mark(f"{n:,} Gaussian keys", color=tone, ls="--", lw=1.0) for n, tone in tones.items()]
    names = {True: "a layer's heads, trained", False: "untrained"}
    handles += [style.mark(name, color=style.GREY, **_look(trained)) for trained, name in names.items()]
    style.legend_below(figure, handles, columns=len(handles), **style.seeds_title(shares.seeds))
    return figure


def reach_by_width(ceilings: pd.DataFrame) -> Figure:
    """Draw the share of the keys in heads that can get a half, a tenth, a hundredth of a query's attention, by width.

    ceilings: table language_model_ceilings, of which the models with LayerNorm are drawn. Left any query, right those
    that a head can make behind its norm.
    """
    shares = numbers.shares_reached(ceilings[ceilings.variant == "layernorm"])
    if shares.empty:
        raise ValueError("language_model_ceilings: no heads of models with LayerNorm to draw")
    widths, sizes = sorted(shares.d_head.unique()), sorted(shares.n_keys.unique())
    markers = dict(zip(sizes, "os^D" * len(sizes), strict=False))
    words = {ANY: "any query", NORM: "any query behind the norm, on any text"}
    figure, panels = plt.subplots(1, len(words), figsize=(style.PAGE, 2.9), sharey=True)
    place = ["threshold", "n_keys", "checkpoint"]
    for axes, (queries, title) in zip(panels, words.items(), strict=True):
        for (threshold, n, checkpoint), part in shares[shares.queries == queries].groupby(place):
            trained, part = checkpoint == CHECKPOINTS[-1], part.sort_values("d_head")
            look = {**_look(trained), "marker": markers[n], "ls": "-" if trained else ":", "lw": 0.9}
            axes.plot(part.d_head, part.percent, color=SHARE_COLOURS[threshold], **look)
            some = part[part.seeds >= style.FEWEST]
            axes.vlines(some.d_head, some.low, some.high, color=SHARE_COLOURS[threshold], lw=0.8)
        axes.set(xscale="log", xlabel="width of a head, d_head", title=title)
        style.ticks_at(axes, widths)
    panels[0].set(ylabel="keys that can get it (%)", ylim=(-4, 104))
    fractions = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
    handles = [
        style.mark(f"at least {fractions[threshold]}", color=colour, lw=4)
        for threshold, colour in SHARE_COLOURS.items()
    ]
    grey = {"color": style.GREY, "ls": ""}
    handles += [style.mark(f"{n:,} keys", **grey, marker=marker, ms=3.4) for n, marker in markers.items()]
    untrained = {**_look(False), "color": style.GREY, "ls": ":", "lw": 0.9}
    handles.append(style.mark("untrained", **untrained))
    style.legend_below(figure, handles, columns=len(handles), **style.seeds_title(shares.seeds))
    return figure


def _look(trained: bool) -> dict:
    return {"marker": "o", "ms": 3.4, "ls": "", "mfc": None if trained else "white", "mew": 0.8, "zorder": 3}
