"""Which figures a reproduction has, and for each one its name, drawing function, tables and caption.

Snakemake imports this module while it plans the jobs, so it holds strings only and imports neither matplotlib nor
pandas; `draw` imports the module that draws a figure when it is called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from layernorm_roles.evidence.legends import LEGENDS, PAPER_MODEL
from layernorm_roles.variants import PAPER_PROJECTION, PAPER_SCALING, QUERY_KEY_VARIANT

WITH_PROJECTION, WITHOUT_PROJECTION = PAPER_PROJECTION
WITH_SCALING, WITHOUT_SCALING = PAPER_SCALING

SIZE_AND_PROJECTION = ("layernorm", "layernorm_small", "scale", "scale_released")
"""The four variants that cross the size of the keys with their projection."""

MAJORITY, RANDOM_KEYS, LANGUAGE_MODELS, PRETRAINED, STATEMENTS, VERDICTS = (
    "Majority task",
    "Random keys",
    "Language models",
    "Pretrained models",
    "Statements",
    "Verdicts",
)
"""The categories under which `snakemake --report` lists the figures."""

SECTIONS = ("majority", "language_model", "random_keys", "pretrained")
"""The sections of a reproduction's settings that say which figures it has."""


@dataclass(frozen=True)
class Figure:
    """One figure of a reproduction."""

    name: str
    """Name of the files without their ending, e.g. figure_2a."""
    module: str
    """Module of layernorm_roles.evidence.figures that draws the figure."""
    function: str
    """Function of that module; it takes the tables in the order of `tables`, then `options` by keyword."""
    tables: tuple[str, ...]
    """Names of the tables that the figure is drawn from: parquet/<name>.parquet, with the schema of that name."""
    caption: str
    """What the figure shows, in whole sentences."""
    category: str
    """Heading under which the figure is listed."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the drawing function: strings, numbers and dictionaries of them."""


DURATIONS = Figure(
    "durations",
    "durations",
    "draw",
    ("durations",),
    "Wall time of the rules that took longest, all jobs of a rule together, with the number of jobs and the largest "
    "memory of one job.",
    "Durations",
)
"""The one figure that is drawn from a readable table, tables/durations.csv, because it describes the reproduction's
jobs and not its results."""

CURVES = {
    "majority_metrics": ("experiment", ("test_loss", "query_angle_mean")),
    "language_model_metrics": ("model", ("valid_loss",)),
}
"""What a comparison of two reproductions draws: for each table of runs the column that names what the runs belong to,
and the columns that are drawn."""

COMPARED = ("claims", *CURVES)
"""The Parquet tables that a comparison reads of each reproduction, beside the file settings.json."""


def figures(settings: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the figures of a reproduction by name, in the order in which a reader meets them.

    `settings` are those of the reproduction, as plain dictionaries; what is not in SECTIONS is not looked at. A figure
    whose variants have no seeds in these settings is left out, and so are those of a section that is missing; but
    without the section random_keys its figures are all there.
    """
    majority, language_model, random_keys, pretrained = map(settings.get, SECTIONS)
    majority = majority or {}
    found = [
        *_paper_majority(majority),
        *(figure for name, settings in majority.items() for figure in _majority(name, settings)),
        *_samplings(majority),
        *_random_keys(random_keys),
        *(
            figure
            for name, model in (language_model or {}).items()
            for figure in _language_model(name, model)
        ),
        *_widths_of_heads(language_model or {}),
        *(figure for name, model in (pretrained or {}).items() for figure in _pretrained(name, model)),
        *_STATEMENTS,
        _CLAIMS,
    ]
    return {figure.name: figure for figure in found}


def draw(figure: Figure, tables: Mapping[str, Any]) -> Any:
    """Draw a figure from pandas data frames, given by the names of their tables; return a matplotlib Figure."""
    style = import_module("layernorm_roles.evidence.figures.style")
    style.theme()
    function = getattr(import_module(f"layernorm_roles.evidence.figures.{figure.module}"), figure.function)
    return function(*(tables[name] for name in figure.tables), **figure.options)


def trained_variants(settings: Mapping[str, Any]) -> list[str]:
    """Return the variants that have at least one seed in the settings of an experiment or a model."""
    return [variant for variant, seeds in settings["seeds"].items() if seeds]


# The majority task

_FEW_SEEDS = (
    "Lines are means over seeds, bands 95 % intervals of the mean; with fewer than five seeds thin lines show the "
    "single runs instead of a band."
)
_DIAMONDS = "Diamonds are read off the paper's figure."
_RANDOM = " The dotted line is the mean for a random direction."
_BEYOND = " A diamond right of the axis belongs to the step written below it, after our runs end."


def is_single(settings: Mapping[str, Any]) -> bool:
    """Whether all runs of a majority experiment or language model have one width, learning rate and length.

    Only the keys of such models are judged; the others are for losses by learning rate and by length.
    """
    values = (settings[key] for key in ("d_model", "learning_rate", "steps"))
    return all(not isinstance(value, list | tuple) or len(value) == 1 for value in values)


def data_in_words(settings: Mapping[str, Any]) -> str:
    """Say how a majority experiment draws its partitions of the sequence length and splits them into two sets."""
    sampling = {"depth_first": "depth-first partitions", "uniform": "uniform partitions"}[
        settings["sampling"]
    ]
    split = {"rows": "split by rows", "partitions": "split by partitions"}[settings["split"]]
    if (settings["sampling"], settings["split"]) == ("depth_first", "rows"):
        return f"released data ({sampling}, {split})"
    return f"{sampling}, {split}"


def _setting(experiment: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the drawing functions need to know of an experiment with one width and one rate, besides the tables."""
    (d_model,) = settings["d_model"]
    paper = {"sequence_length": 50, "classes": 20, "sampling": "depth_first", "split": "rows"}
    return {
        "experiment": experiment,
        "d_model": d_model,
        "title": f"{experiment}: d_model = {d_model}\n{data_in_words(settings)}",
        "as_in_the_paper": d_model == 8 and all(settings[key] == value for key, value in paper.items()),
    }


def _experiment_in_words(experiment: str, settings: Mapping[str, Any]) -> str:
    widths = ", ".join(str(width) for width in settings["d_model"])
    return (
        f"Experiment {experiment}: sequences of {settings['sequence_length']} tokens from {settings['classes']} "
        f"classes, d_model = {widths}, {settings['steps']:,} steps, {data_in_words(settings)}."
    )


def _paper_majority(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    three, eight = (
        majority[name] if name in majority and is_single(majority[name]) else None for name in ("d3", "d8")
    )
    panels = {
        "figure_1a": (WITHOUT_PROJECTION, "without projection, as the released code computes it"),
        "figure_1b": (WITH_PROJECTION, "with LayerNorm"),
    }
    for name, (variant, words) in panels.items():
        if three and three["d_model"] == [3] and variant in trained_variants(three):
            caption = f"Figure {name[-2:]} of the paper. Keys and queries of all runs in three dimensions, {words}. "
            options = {"experiment": "d3", "variants": [variant]}
            yield _vectors(name, caption + _PLANE_AND_LENGTHS, options)
    if eight and {WITH_PROJECTION, WITHOUT_PROJECTION} & set(trained_variants(eight)):
        setting = _setting("d8", eight)
        marks = f" {_DIAMONDS}" if setting["as_in_the_paper"] else ""
        angle = _BEYOND + _RANDOM if marks else _RANDOM
        curves = {
            "figure_2a": ("train_loss", "Training loss", ""),
            "figure_2b": ("query_angle_mean", "Mean angle between the queries and the ones vector", angle),
            "figure_3": ("test_accuracy", "Test accuracy", ""),
        }
        for name, (column, words, more) in curves.items():
            caption = (
                f"Figure {name[7:]} of the paper. {words} of its two variants. {_FEW_SEEDS}{marks}{more}"
            )
            yield _curves(name, "paper_curves", caption, column=column, setting=setting)


def _curves(name: str, function: str, caption: str, module: str = "majority", **options: Any) -> Figure:
    return Figure(name, module, function, ("majority_metrics",), caption, MAJORITY, options)


def _vectors(name: str, caption: str, options: Mapping[str, Any]) -> Figure:
    return Figure(name, "vectors", "keys_and_queries", ("majority_vectors",), caption, MAJORITY, options)


_PLANE_AND_LENGTHS = (
    "The dashed line is the ones vector, the grey disc the plane orthogonal to it. The strip below has the length of "
    "every key and query, on a logarithmic axis, because queries near the origin do not show theirs."
)


def _majority(experiment: str, settings: Mapping[str, Any]) -> Iterator[Figure]:
    """The figures that an experiment has by its widths and rates: curves over the steps, or over what it varies."""
    variants = trained_variants(settings)
    if not variants:
        return
    where = _experiment_in_words(experiment, settings)
    if is_single(settings):
        yield from _single(experiment, settings, variants, where)
    if len(settings["learning_rate"]) > 1:
        yield from _rates(experiment, where)
    if len(settings["d_model"]) > 1:
        yield from _widths(experiment, variants, where)


def _single(
    experiment: str, settings: Mapping[str, Any], variants: list[str], where: str
) -> Iterator[Figure]:
    setting = _setting(experiment, settings)
    marks = f" {_DIAMONDS}" if setting["as_in_the_paper"] else ""
    angle = _BEYOND + _RANDOM if marks else _RANDOM
    curves = {
        "loss": (
            "train_loss",
            "Training loss of all variants, on a logarithmic axis, beyond which a band may go on.",
            "",
        ),
        "angle": (
            "query_angle_mean",
            "Mean angle between the queries and the ones vector for all variants.",
            angle,
        ),
        "accuracy": ("test_accuracy", "Test accuracy of all variants.", ""),
    }
    for suffix, (column, words, more) in curves.items():
        name, caption = f"majority_{experiment}_{suffix}", f"{words} {where} {_FEW_SEEDS}{marks}{more}"
        yield _curves(name, "all_curves", caption, column=column, setting=setting)
    caption = (
        "How equally the queries attend to the classes, for all variants. Left, the standard deviation of a query's "
        "scores over the classes: 0 is equal attention. Right, the perplexity of its attention weights over the "
        f"number of classes: 1, the dotted line, is equal attention. {where} {_FEW_SEEDS}"
    )
    yield _curves(f"majority_{experiment}_attention", "attention", caption, setting=setting)
    if setting["d_model"] == 3:
        caption = (
            "Keys and queries of all runs in three dimensions, a panel for every variant, on equal axes and from one "
            f"point of view. Keys outside the box are counted, not drawn. {_PLANE_AND_LENGTHS} {where}"
        )
        options = {"experiment": experiment, "variants": variants}
        yield _vectors(f"majority_{experiment}_vectors", caption, options)
    if set(SIZE_AND_PROJECTION) <= set(variants):
        caption = (
            "Size of the keys and their projection, crossed: LayerNorm and scaling alone, both as the text defines "
            "them (keys of length √d) and divided by d as in the released code (1/√d). Left, test accuracy early and "
            "at the end of training. Right, what each of the two adds, averaged over the other, and their "
            "interaction, which is the effect of projection on large keys minus that on small ones. Thin lines and "
            f"small points are seeds, bars 95 % intervals of the mean. {where}"
        )
        name = f"majority_{experiment}_size_and_projection"
        yield _curves(name, "size_and_projection", caption, module="crossed", setting=setting)


def _rates(experiment: str, where: str) -> Iterator[Figure]:
    caption = (
        "Each variant by the learning rate. Left, test accuracy at the last step, on an axis that is logarithmic in "
        "the errors. Right, optimiser steps to a test loss of 0.5, geometric means; an open triangle is a lower bound, "
        "because runs ended before they were there. Bars are 95 % intervals over seeds, where there are at least "
        "three; they may go on beyond the axis. A ring marks the rate with the lowest test loss at the last step, a "
        f"cross a rate at which runs diverged. {where}"
    )
    yield _curves(f"majority_{experiment}_by_rate", "by_rate", caption, "rates", experiment=experiment)
    caption = (
        "Test loss of each variant at its best learning rate, the one with the lowest test loss at the last step, mean "
        "over seeds, on logarithmic axes. "
        f"{_FEW_SEEDS} {where}"
    )
    yield _curves(f"majority_{experiment}_best_rates", "best_rates", caption, "rates", experiment=experiment)


def _widths(experiment: str, variants: list[str], where: str) -> Iterator[Figure]:
    left = "test accuracy at the last step, on an axis that is logarithmic in the errors."
    right = ""
    if "scale" in variants and len(variants) > 1:
        left = f"left, {left}"
        right = (
            " Right, its difference from scaling alone with equal seeds, in percentage points: what it costs to "
            "project for queries, keys and values, for queries and keys only, and for values only."
        )
    caption = (
        f"Each variant by the width d: {left}{right} Bars are 95 % intervals over seeds, where there are at least "
        f"three; they may go on beyond the axis. {where}"
    )
    yield _curves(f"majority_{experiment}_by_width", "by_width", caption, "widths", experiment=experiment)


def _samplings(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    for name, first, second in (
        ("majority_samplings", "d8", "d8_uniform"),
        ("majority_samplings_d3", "d3", "d3_uniform"),
    ):
        pair = [majority[each] for each in (first, second) if each in majority and is_single(majority[each])]
        if len(pair) < 2 or not set(trained_variants(pair[0])) & set(trained_variants(pair[1])):
            continue
        left, right = (data_in_words(settings) for settings in pair)
        caption = (
            "Test loss and query angle of the variants that two experiments share, to see whether the data decide. "
            f"Left, {first}: {left}. Right, {second}: {right}. {_FEW_SEEDS} Where the two have different numbers of "
            "seeds, the first one is that of the left. The dotted lines are the mean angle of a random direction."
        )
        settings = [_setting(each, majority[each]) for each in (first, second)]
        yield _curves(name, "samplings", caption, settings=settings)


# Random keys

_BORDERLINE = "Rounding leaves open whether a borderline key is selectable."


def _random_keys(settings: Mapping[str, Any] | None) -> Iterator[Figure]:
    """Figures 1c, 1d and their companions; `settings` are those of the random keys, None stands for any."""
    norms = None if settings is None else set(settings["norms"])

    def figure(name: str, function: str, table: str, caption: str, **options) -> Figure:
        return Figure(name, "random_keys", function, (table,), caption, RANDOM_KEYS, options)

    number = "" if settings is None else f"the {settings['matrices']:,} "
    share = f"Share of {number}matrices of n Gaussian keys in d dimensions that have an unselectable key"
    if norms is None or "none" in norms:
        caption = f"Figure 1c of the paper. {share}."
        yield figure("figure_1c", "share", "random_keys", caption, norms=["none"])
    if norms is None or "layernorm" in norms:
        caption = (
            f"Figure 1d of the paper. {share} after LayerNorm, in float64 and without eps. {_BORDERLINE}"
        )
        yield figure("figure_1d", "share", "random_keys", caption, norms=["layernorm"])
    caption = f"{share}, after every norm of the configuration; all norms get equal matrices. {_BORDERLINE}"
    yield figure("figure_random_keys_norms", "share", "random_keys", caption)
    # Inside the hull of others lies one of d + 2 keys at the earliest, of d + 1 after projection.
    needed = {"none": 2, "projection": 1}
    if settings is None or any(
        settings["keys"][1] >= settings["dimensions"][0] + needed[norm] for norm in norms & {*needed}
    ):
        caption = (
            "Above, the share of unselectable keys: simulated in colour, the exact expectation as contour lines. "
            "Below, the difference between the two in standard errors, z, for every cell that leads to expect enough "
            "keys; the others are hatched."
        )
        yield figure("figure_random_keys_exact", "exact", "random_keys", caption)
    caption = (
        "What eps and float32 leave of the result that LayerNorm makes every key selectable. Left and right, by the "
        "number of keys in the smallest dimension, neighbouring numbers pooled; middle, by dimension. The settings "
        "stand side by side around their number or dimension, so that equal values hide none of them. Undecided are "
        "borderline keys, whose verdict rounding leaves open."
    )
    yield figure("figure_random_keys_precision", "finite_precision", "random_keys_precision", caption)
    caption = (
        "The law of widths: from how many standard Gaussian keys on 1 %, 10 % and 50 % of them are expected to be "
        "unselectable, by their dimension, exactly. Dashed, where the rivals of a key are only the keys before it, as "
        "for a causal query. The band goes from a thousand to a million keys."
    )
    yield Figure("gaussian_law", "random_keys", "law", ("gaussian_law",), caption, RANDOM_KEYS)


# The language models

_ENDINGS = (
    "Right, at the last step, minus that of LayerNorm with equal seeds: mean and 95 % interval, small points single "
    "seeds; a baseline beyond the axis is an arrow with its number. "
)


def _language_model(model: str, settings: Mapping[str, Any]) -> Iterator[Figure]:
    """The losses of a model and, of a GPT, the keys in its heads; the model called gpt has the paper's Figure 4."""
    variants = trained_variants(settings)
    if not variants or not is_single(settings):
        return
    pair = {WITH_SCALING, WITHOUT_SCALING}
    is_gpt, is_paper = settings["architecture"] == "gpt", model == PAPER_MODEL
    if is_paper and pair & set(variants):
        yield from _figure_4()
    if is_gpt and pair <= set(variants):
        name = "figure_4_difference" if is_paper else f"language_model_{model}_difference"
        caption = (
            f"Loss without scaling minus loss with scaling, of pairs of the model {model} with equal seed and batches. "
            "Thick lines are means over seeds, bands 95 % intervals, thin lines the single pairs; what leaves the axis "
            "goes on beyond it."
        )
        if is_paper:
            caption += " Diamonds at the right edge are the paper's differences after 50,000 steps."
        yield _losses(name, "difference", caption, model=model, paper=is_paper)
    norms, right = "every variant of the norm (left)", _ENDINGS
    if variants == [WITH_SCALING]:
        norms, right = "LayerNorm", ""
    caption = (
        f"Validation loss of the language model {model} with {norms}, by the steps; the dotted line is the loss of the "
        f"training tokens' frequencies on the same tokens. {right}{_FEW_SEEDS}"
    )
    yield _losses(f"language_model_{model}_loss", "all_losses", caption, model=model)
    in_heads = [v for v in variants if v in {*pair, QUERY_KEY_VARIANT} or v not in LEGENDS]
    if is_gpt and in_heads:
        name = "figure_heads" if is_paper else f"language_model_{model}_heads"
        d_model, d_head = settings["d_model"], settings["d_model"] // settings["heads"]
        caption = (
            f"Share of unselectable keys among the keys of a context in the language model {model}, before and after "
            f"training: at the attention input (d_model = {d_model} dimensions, bars) and in the heads, after the key "
            f"projection (d_head = {d_head} dimensions; points: among all keys of the context; triangles: among the "
            "keys before each key, which a causal query sees). Means are over contexts and seeds. Grey lines are the "
            "exact expectation for as many Gaussian keys, in d_head dimensions with both kinds of rivals and, for the "
            "attention input after projection, in d_model − 1."
        )
        options = {"model": model, "variants": in_heads}
        yield Figure(name, "heads", "heads", ("key_selectability",), caption, LANGUAGE_MODELS, options)


def _widths_of_heads(models: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    """Two figures over all GPTs with LayerNorm, if their heads differ in width."""
    widths = {
        settings["d_model"] // settings["heads"]
        for settings in models.values()
        if settings["architecture"] == "gpt"
        and is_single(settings)
        and WITH_SCALING in trained_variants(settings)
    }
    if len(widths) > 1:
        caption = (
            "Unselectable keys in the heads of the language models with LayerNorm, by the width of a head. A point is "
            "a layer, mean over its heads, contexts and seeds; untrained models stand left of the width and trained "
            "ones right of it, the first layer nearest to it. Vertical lines are 95 % intervals over seeds, where "
            "there are at least three. Dashed is the exact expectation for as many Gaussian keys; the colour is the "
            "number of keys in a context."
        )
        yield Figure("heads_by_width", "heads", "by_width", ("key_selectability",), caption, LANGUAGE_MODELS)
        caption = (
            "How much attention keys in the heads of the language models with LayerNorm can get, by the width of a "
            "head: the share of the keys that some query gives at least a half, a tenth, a hundredth of its attention "
            "among all keys of a context (certified ceilings). Left, any query, as if the norm confined none; right, "
            "the queries that the head can make behind its norm, on any text. Means are over layers, heads and seeds; "
            "vertical lines are 95 % intervals over seeds, where there are at least three."
        )
        tables = ("language_model_ceilings",)
        yield Figure("reach_by_width", "heads", "reach_by_width", tables, caption, LANGUAGE_MODELS)


def _figure_4() -> Iterator[Figure]:
    losses = {
        "figure_4a": ("left", "train_loss", "Training loss"),
        "figure_4b": ("right", "valid_loss", "Validation loss"),
    }
    for name, (side, column, words) in losses.items():
        caption = (
            f"Figure 4 of the paper, {side}. {words} of the language models with and without scaling, from the first "
            f"evaluation after the start. {_FEW_SEEDS} Diamonds at the right edge, read off, are what the paper's "
            "models end with after 50,000 steps; they compare with the curves only as far as text and vocabulary do."
        )
        yield _losses(name, "paper_losses", caption, column=column)


def _losses(name: str, function: str, caption: str, **options: Any) -> Figure:
    tables = ("language_model_metrics",)
    return Figure(name, "language_model", function, tables, caption, LANGUAGE_MODELS, options)


# Pretrained models


def _pretrained(model: str, settings: Mapping[str, Any]) -> Iterator[Figure]:
    """How much attention the keys in the heads of a pretrained model can get, and its heads cut to fewer dimensions."""
    texts = (
        f"Pretrained model {model}, {settings['contexts']} documents of {settings['context_length']} tokens; a key "
        "counts once for every head."
    )
    ceilings = {
        "ceilings": (
            "reached",
            "Share of the keys that can get at least a half, a tenth and a hundredth of a query's attention, by layer. "
            "Lines: from some query that the head can make behind its norm, on any text (certified ceilings; from any "
            "query at all in a model with rotary embedding), for the keys as the model uses them, and for keys made "
            "from the residual stream before the norm. Bars: what the queries of the text give. Vertical lines are "
            "95 % intervals over documents.",
        ),
        "distribution": (
            "distribution",
            "Distribution of the most attention that a key can get and gets, in every layer: the share of the keys "
            "with no more than x, on an axis that shows both tails. Left of the grey line a key gets less than half.",
        ),
    }
    for suffix, (function, words) in ceilings.items():
        name, options = f"pretrained_{model}_{suffix}", {"model": model}
        tables = ("attention_ceilings",)
        yield Figure(name, "pretrained", function, tables, f"{words} {texts}", PRETRAINED, options)
    caption = (
        "Share of unselectable keys in the heads, if the keys of each head are cut to the first principal components "
        "that they have in their text, on a linear and on a logarithmic axis; the last point of a line is the whole "
        "head. The dashed line is the exact expectation for as many Gaussian keys in as many dimensions, triangles "
        f"are layers without an unselectable key. {texts}"
    )
    name, tables = f"pretrained_{model}_cut_heads", ("pretrained_keys",)
    yield Figure(name, "pretrained", "cut", tables, caption, PRETRAINED, {"model": model})


# What other documents say


def _statement(table: str, caption: str, module: str = "") -> Figure:
    """The figure of one table, drawn by the function that is called as the table."""
    return Figure(f"statement_{table}", f"statements.{module or table}", table, (table,), caption, STATEMENTS)


_STATEMENTS = [
    _statement(
        "geometry",
        "LayerNorm as projection f, scaling, gain and bias. Left, the largest difference from torch's layer_norm by "
        "the length of the inputs. Middle, the radius of the scaled vectors, measured (points) and as the formula "
        "gives it (lines), with eps inside the root as in torch or outside it. Right, the largest difference between "
        "the outputs of the two.",
    ),
    _statement(
        "geometry_cloud",
        "One cloud of points in three dimensions, before and after projection, scaling, and gain and bias. Above "
        "LayerNorm, below RMSNorm, which does not project. The colour of a point is the rank of its height before.",
        module="geometry",
    ),
    _statement(
        "fusion",
        "Share of the variance that the best single matrix in place of W_O and W_1 misses, by what stands between "
        "the two, for random weights (lines) and for trained models (open marks, one a layer and seed). The lower "
        "axes show what is exact to rounding. Right, the number of entries of the single matrix relative to the two.",
    ),
    _statement(
        "placement",
        "Pre-norm and post-norm networks of several depths. Above, the training loss at the end by learning rate, "
        "with and without warm-up; runs that were stuck at the loss of token frequencies and runs that diverged are "
        "counted, and those that diverged are not drawn. Below, the training at the learning rate that is best for "
        "each placement and warm-up. Losses are those above the loss of token frequencies on equal tokens. Lines are "
        "means over seeds, bands their range.",
    ),
    _statement(
        "placement_gradients",
        "Gradient norm of every layer in pre-norm and post-norm networks, at initialisation and during training. The "
        "gradients of a deep network vanish or explode where a line is steep: from left to right are the layers from "
        "the embedding to the readout. Bands are the range over seeds.",
        module="placement",
    ),
    _statement(
        "placement_scales",
        "How large the inputs of attention and feed-forward parts are in the deepest pre-norm and post-norm networks, "
        "and the residual stream before these parts, at initialisation and after training.",
        module="placement",
    ),
    _statement(
        "untrained_gradients",
        "Gradient norm of the first layer in untrained networks, by the number of their layers, with residual "
        "connections and without, with LayerNorm before the parts of a layer, after them, and without any (on an "
        "axis of its own). Lines are geometric means over seeds, bands their range.",
        module="placement",
    ),
    _statement(
        "batch_dependence",
        "Change of a token's output when the other sequences of the batch change, between training and evaluation "
        "mode, and with padding, for LayerNorm and BatchNorm. Lines are means over seeds, bands 95 % intervals.",
    ),
    _statement(
        "score_scale",
        "Spread of attention scores, entropy of attention and the gradient that its softmax leaves, by the dimension "
        "of queries and keys, with and without the division by its root. Lines are random normal vectors, open marks "
        "the heads of trained models.",
    ),
    _statement(
        "worked_numbers",
        "The worked numbers of the notes, recomputed. Left, how many numbers of each example are right, off by "
        "rounding alone, hedged in words, carried on from a mistake, or wrong. Right, the hedged and the wrong ones, "
        "as written and as recomputed.",
    ),
]


# The verdicts

_CLAIMS = Figure(
    "claims_forest",
    "verdicts",
    "forest",
    ("claims",),
    "All claims. Above, those whose source gives a number: the measured effect in units of the reported one, with its "
    "95 % interval, so that 0 is no effect and 1 the reported effect; for ratios the logarithms are divided. Full "
    "marks are the source's own comparison, hollow marks the one that isolates the claimed cause. Below, the claims "
    "without such a number. Colour and shape of a mark are the verdict; what lies beyond the axis stands at its edge, "
    "beside its number and an arrow. A dagger marks claims whose test is passed too by models that lack what the claim "
    "is about, such as untrained ones.",
    VERDICTS,
)
