"""Which figures a reproduction has, and for each one its name, drawing function, tables and caption.

Snakemake imports this module while it plans the jobs, so it holds strings only and imports neither matplotlib nor
pandas; `draw` imports the module that draws a figure when it is called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import QUERY_KEY_VARIANT

WITH_PROJECTION, WITHOUT_PROJECTION = "layernorm", "scale_released"
"""The two variants of the paper's Figures 1a, 1b, 2a, 2b and 3."""

WITH_SCALING, WITHOUT_SCALING = "layernorm", "projection"
"""The two variants of the paper's Figure 4."""

MAJORITY, RANDOM_KEYS, LANGUAGE_MODELS, STATEMENTS = (
    "Majority task",
    "Random keys",
    "Language models",
    "Statements",
)
"""The categories under which `snakemake --report` lists the figures."""


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
    """Names of the tables that the figure is drawn from: parquet/<name>.parquet; `schema_of` names their schema."""
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


def figures(
    majority: Mapping[str, Mapping[str, Any]],
    language_model: Mapping[str, Mapping[str, Any]] | None = None,
    random_keys: Mapping[str, Any] | None = None,
) -> dict[str, Figure]:
    """Return the figures of a reproduction by name, in the order in which a reader meets them.

    `majority` maps the name of each experiment to its settings, `language_model` maps gpt and bert to theirs, and
    `random_keys` holds the settings of that experiment, all as plain dictionaries. A figure whose variants have no
    seeds in these settings is left out. Where `language_model` or `random_keys` is None, its figures are all there.
    """
    found = [
        *_paper_majority(majority),
        *(figure for name, settings in majority.items() for figure in _majority(name, settings)),
        *_samplings(majority),
        *_random_keys(None if random_keys is None else set(random_keys["norms"])),
        *_language_models(language_model or {}),
        *_STATEMENTS,
    ]
    return {figure.name: figure for figure in found}


def draw(figure: Figure, tables: Mapping[str, Any]) -> Any:
    """Draw a figure from pandas data frames, given by the names of their tables; return a matplotlib Figure."""
    style = import_module("layernorm_roles.evidence.figures.style")
    style.theme()
    function = getattr(import_module(f"layernorm_roles.evidence.figures.{figure.module}"), figure.function)
    return function(*(tables[name] for name in figure.tables), **figure.options)


def schema_of(table: str) -> str:
    """Return the name of a table's schema in layernorm_roles.schemas.SCHEMAS; BERT's losses are like the others'."""
    return "language_model_metrics" if table == "bert_metrics" else table


def trained_variants(settings: Mapping[str, Any]) -> list[str]:
    """Return the variants that have at least one seed in the settings of an experiment or a model."""
    return [variant for variant, seeds in settings["seeds"].items() if seeds]


# The majority task

_INTERVAL = "Lines are means over seeds, bands 95 % intervals of the mean"
_FEW_SEEDS = f"{_INTERVAL}; with fewer than five seeds thin lines show the single runs instead of a band."
_DIAMONDS = "Diamonds are read off the paper's figure."


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
    """What the drawing functions of an experiment need to know besides the tables."""
    paper = {"d_model": 8, "sequence_length": 50, "classes": 20, "sampling": "depth_first", "split": "rows"}
    return {
        "experiment": experiment,
        "d_model": settings["d_model"],
        "title": f"{experiment}: d_model = {settings['d_model']}\n{data_in_words(settings)}",
        "as_in_the_paper": all(settings[key] == value for key, value in paper.items()),
    }


def _experiment_in_words(experiment: str, settings: Mapping[str, Any]) -> str:
    return (
        f"Experiment {experiment}: sequences of {settings['sequence_length']} tokens from {settings['classes']} "
        f"classes, d_model = {settings['d_model']}, {settings['steps']:,} steps, {data_in_words(settings)}."
    )


def _paper_majority(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    three, eight = majority.get("d3"), majority.get("d8")
    panels = {
        "figure_1a": (WITHOUT_PROJECTION, "without projection, as the released code computes it"),
        "figure_1b": (
            WITH_PROJECTION,
            "with LayerNorm",
        ),
    }
    for name, (variant, words) in panels.items():
        if three and three["d_model"] == 3 and variant in trained_variants(three):
            caption = (
                f"Figure {name[-2:]} of the paper. Keys and queries of all runs in three dimensions, {words}. The "
                "dashed line is the ones vector, the grey disc the plane orthogonal to it."
            )
            options = {"experiment": "d3", "variants": [variant]}
            yield Figure(
                name, "vectors", "keys_and_queries", ("majority_vectors",), caption, MAJORITY, options
            )
    if eight and {WITH_PROJECTION, WITHOUT_PROJECTION} & set(trained_variants(eight)):
        marks = f" {_DIAMONDS}" if _setting("d8", eight)["as_in_the_paper"] else ""
        random = " The dotted line is the mean for a random direction."
        curves = {
            "figure_2a": ("train_loss", "Training loss", ""),
            "figure_2b": ("query_angle_mean", "Mean angle between the queries and the ones vector", random),
            "figure_3": ("test_accuracy", "Test accuracy", ""),
        }
        for name, (column, words, more) in curves.items():
            caption = (
                f"Figure {name[7:]} of the paper. {words} of its two variants. {_FEW_SEEDS}{marks}{more}"
            )
            options = {"column": column, "setting": _setting("d8", eight)}
            yield Figure(name, "majority", "paper_curves", ("majority_metrics",), caption, MAJORITY, options)


def _majority(experiment: str, settings: Mapping[str, Any]) -> Iterator[Figure]:
    variants = trained_variants(settings)
    if not variants:
        return
    marks = f" {_DIAMONDS}" if _setting(experiment, settings)["as_in_the_paper"] else ""
    curves = {
        "loss": ("train_loss", "Training loss of all variants, on a logarithmic axis.", ""),
        "angle": (
            "query_angle_mean",
            "Mean angle between the queries and the ones vector for all variants.",
            " The dotted line is the mean for a random direction.",
        ),
        "accuracy": ("test_accuracy", "Test accuracy of all variants.", ""),
    }
    where = _experiment_in_words(experiment, settings)
    for suffix, (column, words, more) in curves.items():
        yield Figure(
            f"majority_{experiment}_{suffix}",
            "majority",
            "all_curves",
            ("majority_metrics",),
            f"{words} {where} {_FEW_SEEDS}{marks}{more}",
            MAJORITY,
            {"column": column, "setting": _setting(experiment, settings)},
        )
    if settings["d_model"] == 3:
        yield Figure(
            f"majority_{experiment}_vectors",
            "vectors",
            "keys_and_queries",
            ("majority_vectors",),
            "Keys and queries of all runs in three dimensions, a panel for every variant, on equal axes and from one "
            f"point of view. Keys outside the box are counted, not drawn. {where}",
            MAJORITY,
            {"experiment": experiment, "variants": variants},
        )


def _samplings(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    if not {"d8", "d8_uniform"} <= set(majority):
        return
    shared = [
        name for name in trained_variants(majority["d8_uniform"]) if name in trained_variants(majority["d8"])
    ]
    if shared:
        pair = [_setting(name, majority[name]) for name in ("d8", "d8_uniform")]
        yield Figure(
            "majority_samplings",
            "majority",
            "samplings",
            ("majority_metrics",),
            "Test loss and query angle of the variants that two experiments share, to see whether the data decide. "
            f"Left, d8: {data_in_words(majority['d8'])}. Right, d8_uniform: {data_in_words(majority['d8_uniform'])}. "
            f"{_FEW_SEEDS} The dotted lines are the mean angle of a random direction.",
            MAJORITY,
            {"settings": pair},
        )


# Random keys


def _random_keys(norms: set[str] | None) -> Iterator[Figure]:
    """Figures 1c, 1d and their companions; `norms` are those of the configuration, None stands for any."""

    def figure(name: str, function: str, table: str, caption: str, **options) -> Figure:
        return Figure(name, "random_keys", function, (table,), caption, RANDOM_KEYS, options)

    share = "Share of matrices of n Gaussian keys in d dimensions that have an unselectable key"
    if norms is None or "none" in norms:
        caption = f"Figure 1c of the paper. {share}."
        yield figure("figure_1c", "share", "random_keys", caption, norms=["none"])
    if norms is None or "layernorm" in norms:
        caption = f"Figure 1d of the paper. {share} after LayerNorm, in float64 and without eps."
        yield figure("figure_1d", "share", "random_keys", caption, norms=["layernorm"])
    caption = f"{share}, after every norm of the configuration; all norms get equal matrices."
    yield figure("figure_random_keys_norms", "share", "random_keys", caption)
    if norms is None or norms & {"none", "projection"}:
        caption = (
            "Above, the share of unselectable keys: simulated in colour, the exact expectation as contour lines. "
            "Below, the difference between the two in standard errors of the simulation, z, for every cell that "
            "leads to expect enough keys."
        )
        yield figure("figure_random_keys_exact", "exact", "random_keys", caption)
    caption = (
        "What eps and float32 leave of the result that LayerNorm makes every key selectable. Left and right, by the "
        "number of keys in the smallest dimension; middle, by dimension. A wide pale line is float64, a dashed line "
        "float32."
    )
    yield figure("figure_random_keys_precision", "finite_precision", "random_keys_precision", caption)


# The language models


def _language_models(models: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    """Figure 4, the losses and the heads; a model that is not in `models` counts as having every variant."""
    gpt, bert = models.get("gpt"), models.get("bert")
    variants = list(LEGENDS) if gpt is None else trained_variants(gpt)
    pair = {WITH_SCALING, WITHOUT_SCALING}
    losses = {
        "figure_4a": ("left", "train_loss", "Training loss", "training loss (nats per token)"),
        "figure_4b": ("right", "valid_loss", "Validation loss", "validation loss (nats per token)"),
    }
    for name, (side, column, words, axis) in losses.items():
        if pair & set(variants):
            caption = (
                f"Figure 4 of the paper, {side}. {words} of the language models with and without scaling, from the "
                f"first evaluation after the start. {_INTERVAL}. Diamonds at the right edge, read off, are what "
                "the paper's models end with after 50,000 steps; they compare with the curves only as far as text "
                "and vocabulary do."
            )
            options = {"column": column, "axis": axis, "paper": True, "variants": sorted(pair)}
            yield _language_model(name, "losses", "language_model_metrics", caption, **options)
    if pair <= set(variants):
        caption = (
            "Loss without scaling minus loss with scaling, of models with equal seed and batches. Lines are means "
            "over seeds, bands 95 % intervals; a band that leaves the axis goes on beyond it. Diamonds at the right "
            "edge are the differences between the paper's two models after 50,000 steps."
        )
        yield _language_model("figure_4_difference", "difference", "language_model_metrics", caption)
    if set(variants) - pair:
        caption = f"Validation loss of the language models with every variant of the norm. {_INTERVAL}."
        options = {"column": "valid_loss", "axis": "validation loss (nats per token)"}
        yield _language_model("language_model_loss", "losses", "language_model_metrics", caption, **options)
    in_heads = [v for v in variants if v in {*pair, QUERY_KEY_VARIANT} or v not in LEGENDS]
    if in_heads:
        yield _heads(in_heads, gpt)
    if bert is None or trained_variants(bert):
        caption = f"Validation loss of BERT with its LayerNorms and without any. {_INTERVAL}."
        options = {"column": "valid_loss", "axis": "BERT: validation loss (nats)"}
        yield _language_model("figure_bert_loss", "losses", "bert_metrics", caption, **options)


def _language_model(name: str, function: str, table: str, caption: str, **options) -> Figure:
    return Figure(name, "language_model", function, (table,), caption, LANGUAGE_MODELS, options)


def _heads(variants: list[str], gpt: Mapping[str, Any] | None) -> Figure:
    d_head = None if gpt is None else gpt["d_model"] // gpt["heads"]
    size = "" if d_head is None else f" in d_head = {d_head} dimensions"
    caption = (
        "Share of unselectable keys among the keys of a context, before and after training: at the attention input "
        f"(bars) and in the heads, after the key projection{size} (points). Means are over contexts and seeds."
    )
    options = {"variants": variants, "d_head": d_head}
    return _language_model("figure_heads", "heads", "key_selectability", caption, **options)


# What other documents say


def _statement(table: str, caption: str, module: str = "") -> Figure:
    """The figure of one table, drawn by the function that is called as the table."""
    return Figure(f"statement_{table}", f"statements.{module or table}", table, (table,), caption, STATEMENTS)


_STATEMENTS = [
    _statement(
        "geometry",
        "LayerNorm as projection, scaling, gain and bias. Left, the largest difference from torch's layer_norm by "
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
        "Training loss of pre-norm and post-norm networks above that of token frequencies on equal tokens, by depth "
        "and learning rate, with and without warm-up. Lines are means over seeds, bands their range.",
    ),
    _statement(
        "placement_gradients",
        "Gradient norm of every layer in pre-norm and post-norm networks, at initialisation and in training. Lines "
        "are geometric means over seeds, bands their range.",
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
        "The worked numbers of the notes, recomputed. Left, how many are right, follow from an earlier rounding or "
        "mistake, or are not right. Right, those that are not right, as written and as recomputed.",
    ),
]
