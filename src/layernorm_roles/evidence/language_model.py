"""Figure 4, Tables 1 to 4 and the figure of the heads, from the language models' Parquet."""

import re
from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

from layernorm_roles.evidence import style, tables
from layernorm_roles.evidence.paper import reported
from layernorm_roles.evidence.statistics import t_interval

PAPER_VARIANTS = ("layernorm", "projection")
"""The two models that the paper compares: with scaling, without scaling."""

CHECKPOINTS = ("initial", "final")
LAYERS = "layer {}"


# Figures


def draw(name: str, metrics: pd.DataFrame, bert_metrics: pd.DataFrame, keys: pd.DataFrame) -> Figure:
    """The figure called `name`: 4a, 4b, 4_difference, heads or bert_loss."""
    paper = metrics[metrics.variant.isin(PAPER_VARIANTS)]
    match name:
        case "4a":
            return losses(paper, "train_loss", "training loss (nats per token)")
        case "4b":
            return losses(paper, "valid_loss", "validation loss (nats per token)")
        case "4_difference":
            return difference(paper)
        case "heads":
            return heads(keys)
        case "bert_loss":
            return losses(bert_metrics, "valid_loss", "BERT: validation loss (nats)")
    raise ValueError(f"no figure {name!r}")


def losses(metrics: pd.DataFrame, column: str, label: str) -> Figure:
    """Mean over seeds and its 95 % interval, for each variant; without the untrained model, whose loss is ln V."""
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.4))
    trained = metrics[metrics.step > 0]
    for variant in style.order(trained.variant):
        band = over_seeds(trained[trained.variant == variant], column)
        colour = style.palette(trained.variant)[variant]
        axes.plot(band.index, band["mean"], color=colour, label=style.label(variant))
        axes.fill_between(band.index, band.low, band.high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="optimiser steps", ylabel=label)
    axes.set_xlim(left=0)
    axes.legend()
    return figure


def difference(metrics: pd.DataFrame) -> Figure:
    """Loss without scaling minus loss with it, of the same seed; mean and 95 % interval over seeds."""
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.4))
    last = metrics.step.max()
    paper = reported()["language_model"]
    for column, label, colour in (
        ("train_loss", "training", style.COLOURS["layernorm"]),
        ("valid_loss", "validation", style.COLOURS["scale_released"]),
    ):
        band = over_seeds(paired(metrics, column), "difference")
        axes.plot(band.index, band["mean"], color=colour, label=label)
        axes.fill_between(band.index, band.low, band.high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            last * 1.04,
            paper["projection"][column] - paper["layernorm"][column],
            marker="<",
            color="black" if column == "train_loss" else "white",
            markeredgecolor="black",
            linestyle="none",
            label=f"paper, {label}, step 50,000",
            clip_on=False,
        )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set(
        xlabel="optimiser steps",
        ylabel="loss without − with scaling\n(nats per token)",
        xlim=(0, last * 1.06),
    )
    axes.legend()
    return figure


def heads(keys: pd.DataFrame) -> Figure:
    """Share of unselectable keys in each head (points) and at the attention input (bars), layer by layer."""
    chosen = keys[(keys.model == "gpt") & (keys.texts == "long")].assign(
        share=lambda k: 100 * k.n_unselectable / k.n_keys
    )
    variants = [v for v in ("layernorm", "projection", "layernorm_qk") if v in set(chosen.variant)]
    layers = sorted(chosen.layer.unique())
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.6), sharey=True)
    for axes, checkpoint in zip(panels, CHECKPOINTS, strict=True):
        part = chosen[chosen.checkpoint == checkpoint]
        for i, variant in enumerate(variants):
            colour = style.COLOURS[variant]
            mine = part[part.variant == variant]
            for layer in layers:
                here = mine[mine.layer == layer]
                x = layer + 0.26 * (i - (len(variants) - 1) / 2)
                axes.hlines(
                    here.share[here.site == "after_norm"].mean(),
                    x - 0.12,
                    x + 0.12,
                    color=colour,
                    linewidth=2,
                )
                for site, face in (("head", colour), ("head_exact", "white")):
                    points = here[here.site == site].groupby("head").share.mean()
                    places = x + np.linspace(-0.06, 0.06, len(points)) if len(points) else []
                    axes.scatter(places, points, s=13, color=face, edgecolor=colour, linewidth=0.8, zorder=3)
        axes.set(title=f"{checkpoint} weights", xlabel="layer", xticks=layers, ylim=(-3, 103))
    panels[0].set_ylabel("unselectable keys (%)")
    shapes = [
        Line2D([], [], color="black", linewidth=2, label="attention input"),
        Line2D([], [], marker="o", markersize=4, color="black", linestyle="none", label="in a head"),
        Line2D(
            [],
            [],
            marker="o",
            markersize=4,
            color="white",
            markeredgecolor="black",
            linestyle="none",
            label="in a head, QK-norm with eps = 0",
        ),
    ]
    colours = [Line2D([], [], color=style.COLOURS[v], linewidth=4, label=style.label(v)) for v in variants]
    figure.legend(handles=colours + shapes, loc="outside lower center", ncols=3)
    return figure


def over_seeds(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean over seeds and its 95 % interval, one row a step."""
    values = metrics.pivot(index="step", columns="seed", values=column).dropna()
    intervals = [t_interval(row) for row in values.to_numpy()]
    return pd.DataFrame(intervals, columns=["low", "high"], index=values.index).assign(
        mean=values.mean(axis=1)
    )


def paired(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """step, seed, difference: projection minus layernorm, for the seeds that both have."""
    wide = metrics.pivot(index=["step", "seed"], columns="variant", values=column).dropna()
    return (wide["projection"] - wide["layernorm"]).rename("difference").reset_index()


# Tables


def interval(shares: Float[np.ndarray, "seeds contexts"], level: float = 0.95) -> tuple[float, float]:
    """For the mean over seeds and contexts, both taken as samples of more.

    Student's half-widths over the seeds' means and over the contexts' means, added in quadrature; one seed says
    nothing about others, and then the interval is over contexts alone.
    """
    halves = [0.0]
    for means in (shares.mean(axis=1), shares.mean(axis=0)):
        if len(means) > 1:
            halves.append(
                stats.t.ppf((1 + level) / 2, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
            )
    half = float(np.hypot.reduce(halves))
    return shares.mean() - half, shares.mean() + half


def shares(keys: pd.DataFrame, **where: str) -> pd.DataFrame:
    """Per cent of keys unselectable, one row for each variant, site, checkpoint and layer of the chosen keys."""
    for column, value in where.items():
        keys = keys[keys[column] == value]
    rows = []
    for group, part in keys.groupby(["variant", "site", "checkpoint", "layer"], sort=False):
        percent = 100 * part.n_unselectable / part.n_keys
        matrix = part.assign(share=percent).pivot(index="seed", columns="context", values="share").to_numpy()
        low, high = interval(matrix)
        borderline = 100 * part.n_borderline.sum() / part.n_keys.sum()
        rows.append((*group, matrix.mean(), low, high, *matrix.shape, borderline))
    columns = ["variant", "site", "checkpoint", "layer", "percent", "low", "high", "seeds", "contexts"]
    return pd.DataFrame(rows, columns=[*columns, "borderline_percent"])


def wide(long: pd.DataFrame, name: str, paper: dict[str, Iterable[float]]) -> pd.DataFrame:
    """A table to read: for each value of the column `name` ours at both checkpoints and the paper's."""
    rows = []
    for value, part in long.groupby(name, sort=False):
        for checkpoint in CHECKPOINTS:
            mine = part[part.checkpoint == checkpoint].sort_values("layer")
            cells = [_cell(row.percent, max(row.low, 0.0), min(row.high, 100.0)) for row in mine.itertuples()]
            rows.append([value, checkpoint, mine.seeds.iloc[0], *cells])
        if value in paper:
            rows.append([value, "paper, trained", None, *(_percent(percent) for percent in paper[value])])
    layers = [LAYERS.format(layer) for layer in sorted(long.layer.unique())]
    frame = pd.DataFrame(rows, columns=[name, "weights", "seeds", *layers])
    frame["seeds"] = frame["seeds"].astype("Int64")
    if name == "variant":
        frame[name] = frame[name].map(style.label)
    return frame


def _percent(value: float) -> str:
    """0 is none at all; what is not none does not look like it."""
    return "0" if value == 0 else f"{value:.1f}" if value >= 0.05 else f"{value:.1g}"


def _cell(mean: float, low: float, high: float) -> str:
    return "0" if low == high == 0 else f"{_percent(mean)} [{_percent(low)}, {_percent(high)}]"


NOTE = (
    "Per cent of keys that no query selects, mean over contexts and seeds, with the 95 % interval over both "
    "(one seed: over contexts). Every verdict carries a certificate."
)


def table(number: int, keys: pd.DataFrame, tokens: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Table 1, 2, 3 or 4: the numbers, and a Markdown text to read."""
    paper = reported()["language_model"]
    match number:
        case 1:
            beside = keys[keys.site.isin(["after_norm", "after_norm_exact"])]
            numbers = _ordered(shares(beside, model="gpt", texts="long"))
            main, exact = (numbers[numbers.site == site] for site in ("after_norm", "after_norm_exact"))
            title = "Keys at the attention input, by the norm before it. Contexts of 768 to 1024 tokens."
            aside = "The same keys where they are scaled, with eps = 0 instead of the model's:\n"
            return numbers, _text(
                title, wide(main, "variant", paper["table_1"]), aside, wide(exact, "variant", {})
            )
        case 2:
            beside = keys[keys.site.isin(["before_norm", "after_norm"])]
            numbers = shares(beside, model="gpt", texts="long", variant="layernorm")
            title = "The model with LayerNorm: keys before it and after. Contexts of 768 to 1024 tokens."
            return numbers, _text(title, wide(numbers, "site", paper["table_2"]))
        case 3:
            return _sentences(keys, tokens)
        case 4:
            numbers = _ordered(shares(keys, model="bert", site="after_norm"))
            title = "BERT with every LayerNorm removed, and with them: keys of a layer. Sentences up to 128 tokens."
            return numbers, _text(title, wide(numbers, "variant", {}))
    raise ValueError(f"no table {number}")


def _ordered(numbers: pd.DataFrame) -> pd.DataFrame:
    rank = {variant: i for i, variant in enumerate(style.order(numbers.variant))}
    return numbers.sort_values("variant", key=lambda column: column.map(rank), kind="stable")


def _text(title: str, *parts: pd.DataFrame | str) -> str:
    body = [part if isinstance(part, str) else tables.markdown(part) for part in parts]
    return "\n".join([f"{title}\n", *body, f"{NOTE}\n"])


FEWEST, SHOWN = 10, 20
"""Table 3: how often a token must occur to be listed, and how many are listed."""


def _sentences(keys: pd.DataFrame, tokens: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    mine = tokens[(tokens.model == "gpt") & (tokens.variant == "projection")]
    mine = mine.assign(unselectable=mine.verdict == "unselectable")
    counts = mine.groupby(["token", "checkpoint"]).unselectable.agg(["size", "mean"]).unstack("checkpoint")
    numbers = pd.DataFrame(
        {
            "token": counts.index,
            "occurrences": counts["size", "final"].to_numpy(),
            "initial_percent": 100 * counts["mean", "initial"].to_numpy(),
            "final_percent": 100 * counts["mean", "final"].to_numpy(),
        }
    ).sort_values(["final_percent", "occurrences", "token"], ascending=[False, False, True])
    often = numbers[numbers.occurrences >= FEWEST * mine.layer.nunique() * mine.seed.nunique()].head(SHOWN)
    shown = pd.DataFrame(
        {
            "token": [_code(token) for token in often.token],
            "occurrences × layers × seeds": often.occurrences.to_numpy(),
            "unselectable, initial (%)": [f"{value:.1f}" for value in often.initial_percent],
            "unselectable, final (%)": [f"{value:.1f}" for value in often.final_percent],
        }
    )
    layers = wide(
        shares(keys, model="gpt", texts="sentences", site="after_norm", variant="projection"), "variant", {}
    )
    return numbers, _text(
        "The model without scaling, sentences of up to 128 tokens: the tokens that are unselectable most often.",
        shown,
        "Sentences of it, first seed, final weights, first layer; unselectable tokens in **bold**:\n",
        "\n".join(f"- {line}" for line in _examples(mine)) + "\n",
        "All tokens:\n",
        layers,
    )


def _examples(tokens: pd.DataFrame, number: int = 8) -> list[str]:
    """The sentences with the most unselectable tokens."""
    first = tokens[
        (tokens.seed == tokens.seed.min())
        & (tokens.checkpoint == "final")
        & (tokens.layer == tokens.layer.min())
    ]
    ranked = (
        first.groupby("context").unselectable.sum().sort_values(ascending=False, kind="stable").head(number)
    )
    lines = []
    for context in ranked.index[ranked > 0]:
        sentence = first[first.context == context].sort_values("position")
        line = "".join(_mark(t.token, t.unselectable) for t in sentence.itertuples()).strip()
        line = line.replace("****", "")  # neighbours share their emphasis
        lines.append(re.sub("\N{REPLACEMENT CHARACTER}+", "\N{REPLACEMENT CHARACTER}", line))
    return lines or ["(none has an unselectable token)"]


def _mark(token: str, unselectable: bool) -> str:
    word = token.strip()
    return token.replace(word, f"**{word}**") if unselectable and word else token


def _code(token: str) -> str:
    return f"`{token.replace('|', '¦').replace(chr(10), '⏎')}`"
