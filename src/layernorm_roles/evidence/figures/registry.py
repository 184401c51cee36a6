"""Which figures a reproduction has, and for each one its name, drawing function, tables, caption and role.

The file figures.yaml beside this module has what is data: an entry for each kind of figure. Snakemake imports this
module while it plans the jobs, so it imports neither matplotlib nor pandas; `draw` imports the module that draws a
figure when it is called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from layernorm_roles.evidence import legends
from layernorm_roles.evidence.legends import LEGENDS, PAPER_MODEL
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_PROJECTION, PAPER_SCALING, QUERY_KEY_VARIANT

WITH_PROJECTION, WITHOUT_PROJECTION = PAPER_PROJECTION
WITH_SCALING, WITHOUT_SCALING = PAPER_SCALING

SIZE_AND_PROJECTION = {"layernorm", "layernorm_small", "scale", "scale_released"}
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

ROLES = ("main", "paper", "appendix")
"""What a figure is: one that carries a finding, one that the paper has, or one behind these."""


@dataclass(frozen=True)
class Figure:
    """One figure of a reproduction."""

    name: str
    """Name of the files without their ending, e.g. figure_2a."""
    draw: str
    """Module of layernorm_roles.evidence.figures and its function that draws the figure, e.g. majority.curves. The
    function takes the tables in the order of `tables`, then `options` by keyword."""
    tables: tuple[str, ...]
    """Names of the tables that the figure is drawn from: parquet/<name>.parquet, with the schema of that name."""
    caption: str
    """What the figure shows, in whole sentences."""
    category: str
    """Heading under which the figure is listed."""
    role: str
    """One of ROLES."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the drawing function: strings, numbers, and lists and dictionaries of them."""

    @property
    def module(self) -> str:
        """The module of `draw`."""
        return self.draw.rpartition(".")[0]


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
    majority, models, random_keys, pretrained = (settings.get(section) or {} for section in SECTIONS)
    found = [
        *_majority(majority),
        *_random_keys(random_keys),
        *_language_models(models),
        *(
            _figure(key, {"model": name}, f"pretrained_{name}_{suffix}", texts=_texts(name, model))
            for name, model in pretrained.items()
            for key, suffix in (("pretrained_ceilings", "ceilings"), ("pretrained_cut_heads", "cut_heads"))
        ),
        *(
            _figure(
                "pretrained_projection",
                {"model": name, "others": _with_scaling(models)},
                f"pretrained_{name}_projection",
                texts=_texts(name, model),
            )
            for name, model in pretrained.items()
        ),
        *(_figure(key) for key in _ENTRIES if key.startswith("statement_")),
        _figure("claims_forest"),
    ]
    return {figure.name: figure for figure in found}


def draw(figure: Figure, tables: Mapping[str, Any]) -> Any:
    """Draw a figure from pandas data frames, given by the names of their tables; return a matplotlib Figure."""
    import_module("layernorm_roles.evidence.figures.style").theme()
    module = import_module(f"layernorm_roles.evidence.figures.{figure.module}")
    function = getattr(module, figure.draw.rpartition(".")[2])
    return function(*(tables[name] for name in figure.tables), **figure.options)


def trained_variants(settings: Mapping[str, Any]) -> list[str]:
    """Return the variants that have at least one seed in the settings of an experiment or a model."""
    return [variant for variant, seeds in settings["seeds"].items() if seeds]


_FILE = yaml.safe_load((Path(__file__).parent / "figures.yaml").read_text(encoding="utf-8"))
_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    name: {"category": category, "role": "appendix", "options": {}} | entry
    for category, entries in _FILE["figures"].items()
    for name, entry in entries.items()
}


def _figure(key: str, options: Mapping[str, Any] | None = None, name: str = "", **words: Any) -> Figure:
    """The figure of an entry of figures.yaml; `words`, constants of `legends` and sentences fill in its caption."""
    entry = _ENTRIES[key]
    known = vars(legends) | {"fractions": ", ".join(legends.FRACTIONS.values())}
    sentences = {name: text.format_map(known).strip() for name, text in _FILE["sentences"].items()}
    caption = " ".join(entry["caption"].format_map(known | sentences | words).split())
    given = entry["options"] | dict(options or {})
    return Figure(
        name or key, entry["draw"], tuple(entry["tables"]), caption, entry["category"], entry["role"], given
    )


# The majority task


def is_single(settings: Mapping[str, Any]) -> bool:
    """Whether all runs of a majority experiment or language model have one width, learning rate and length.

    Only the keys of such models are judged; the others are for losses by learning rate and by length.
    """
    return all(len(_values(settings[key])) == 1 for key in ("d_model", "learning_rate", "steps"))


def _values(setting: Any) -> list[Any]:
    """The values of a setting that may be one value or a list of them."""
    return list(setting) if isinstance(setting, list | tuple) else [setting]


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
        "title": f"{experiment}: d_model = {d_model}, {data_in_words(settings)}",
        "as_in_the_paper": d_model == 8 and all(settings[key] == value for key, value in paper.items()),
    }


def _in_words(experiment: str, settings: Mapping[str, Any]) -> str:
    widths = ", ".join(str(width) for width in settings["d_model"])
    return (
        f"Experiment {experiment}: sequences of {settings['sequence_length']} tokens from {settings['classes']} "
        f"classes, d_model = {widths}, {settings['steps']:,} steps, {data_in_words(settings)}."
    )


def _majority(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    trained = {name: settings for name, settings in majority.items() if trained_variants(settings)}
    single = {name: settings for name, settings in trained.items() if is_single(settings)}
    if "d3" in single and single["d3"]["d_model"] == [3]:
        for key, variant in (("figure_1a", WITHOUT_PROJECTION), ("figure_1b", WITH_PROJECTION)):
            if variant in trained_variants(single["d3"]):
                yield _figure(key, {"experiment": "d3", "variant": variant})
    if "d8" in single and {*PAPER_PROJECTION} & {*trained_variants(single["d8"])}:
        setting, where = _setting("d8", single["d8"]), _in_words("d8", single["d8"])
        diamonds = _FILE["sentences"]["diamonds"].strip() if setting["as_in_the_paper"] else ""
        for key in ("figure_2a", "figure_2b", "figure_3"):
            yield _figure(key, {"setting": setting}, where=where, marks=diamonds)
    for name, settings in trained.items():
        where, variants = _in_words(name, settings), {*trained_variants(settings)}
        if name in single and variants >= SIZE_AND_PROJECTION:
            options = {"setting": _setting(name, settings)}
            yield _figure("size_and_projection", options, f"majority_{name}_size_and_projection", where=where)
        if len(settings["d_model"]) > 1:
            key = "by_d_model_and_difference" if "scale" in variants and len(variants) > 1 else "by_d_model"
            yield _figure(key, {"experiment": name}, f"majority_{name}_by_width", where=where)
        if len(settings["learning_rate"]) > 1:
            yield _figure("by_rate", {"experiment": name}, f"majority_{name}_by_rate", where=where)
    if single:
        settings = [_setting(name, settings) for name, settings in single.items()]
        where = " ".join(_in_words(name, settings) for name, settings in single.items())
        yield _figure("majority_curves", {"settings": settings}, where=where)


# Random keys


def _random_keys(settings: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures 1c, 1d and their companions; `settings` are those of the random keys, empty ones stand for any."""
    norms = set(settings["norms"]) if settings else {"none", "layernorm"}
    number = f"the {settings['matrices']:,} " if settings else ""
    for key, norm in (("figure_1c", "none"), ("figure_1d", "layernorm")):
        if norm in norms:
            yield _figure(key, {"norm": norm}, number=number)
    # Inside the hull of others lies one of d + 2 keys at the earliest, of d + 1 after projection.
    needed = {"none": 2, "projection": 1}
    if not settings or any(
        settings["keys"][1] >= settings["dimensions"][0] + needed[norm] for norm in norms & {*needed}
    ):
        yield _figure("figure_random_keys_exact")
    yield _figure("figure_random_keys_precision")
    yield _figure("gaussian_law")


# The language models


def _language_models(models: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    trained = {name: model for name, model in models.items() if trained_variants(model)}
    single = {name: model for name, model in trained.items() if is_single(model)}
    if {*PAPER_SCALING} & {*trained_variants(single.get(PAPER_MODEL, {"seeds": {}}))}:
        yield from (_figure(key) for key in ("figure_4a", "figure_4b"))
    if panels := _by_rate(trained):
        yield _figure("loss_by_rate", {"panels": panels})
    lengths = [
        name
        for name, model in trained.items()
        if len(_values(model["steps"])) > 1
        and WITH_SCALING in trained_variants(model)
        and {WITHOUT_SCALING, NO_ATTENTION_VARIANT} & {*trained_variants(model)}
    ]
    if lengths:
        yield _figure("loss_by_length", {"models": lengths})
    compared = [name for name, model in single.items() if trained_variants(model) != [WITH_SCALING]]
    if others := [name for name in compared if name != PAPER_MODEL]:
        yield _figure("language_model_losses", {"models": others})
    gpts = {name: model for name, model in single.items() if model["architecture"] == "gpt"}
    in_heads = {*PAPER_SCALING, QUERY_KEY_VARIANT}
    shown = {
        name: [v for v in trained_variants(model) if v in in_heads or v not in LEGENDS]
        for name, model in gpts.items()
        if name in compared
    }
    if shown := {name: variants for name, variants in shown.items() if variants}:
        yield _figure("figure_heads", {"models": shown})
    widths = {
        model["d_model"] // model["heads"]
        for model in gpts.values()
        if WITH_SCALING in trained_variants(model)
    }
    if len(widths) > 1:
        yield _figure("heads_by_width")


def _with_scaling(models: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The GPTs with LayerNorm at a single rate and length, and with other variants beside it."""
    return [
        name
        for name, model in models.items()
        if model["architecture"] == "gpt" and is_single(model) and {WITH_SCALING} < {*trained_variants(model)}
    ]


_APART = {"learning_rate", "seeds", "evaluate_every", "checkpoint_every"}
"""Settings in which language models may differ whose losses by learning rate share a panel."""


def _by_rate(models: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The models with several learning rates, in panels by the name of the first one that is alike."""
    panels: dict[str, list[str]] = {}
    for name, model in models.items():
        if len(_values(model["learning_rate"])) > 1:
            alike = (
                first
                for first in panels
                if all(models[first].get(key) == model.get(key) for key in {*models[first], *model} - _APART)
            )
            panels.setdefault(next(alike, name), []).append(name)
    return panels


# Pretrained models


def _texts(name: str, settings: Mapping[str, Any]) -> str:
    return (
        f"Pretrained model {name}, up to {settings['contexts']} documents of {settings['context_length']} tokens; a "
        "key counts once for every head."
    )
