"""Which figures a reproduction has, and for each one its name, drawing function, tables and caption.

The file figures.yaml beside this module has what is data: an entry for each kind of figure. Snakemake imports this
module while it plans the jobs, so it imports neither matplotlib nor pandas; `draw` imports the module that draws a
figure when it is called.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from layernorm_roles.evidence import legends
from layernorm_roles.evidence.legends import LEGENDS, PAPER_MODEL
from layernorm_roles.settings.yaml_files import LOADER
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_PROJECTION, PAPER_SCALING, QUERY_KEY_VARIANT

WITH_PROJECTION, WITHOUT_PROJECTION = PAPER_PROJECTION
WITH_SCALING, WITHOUT_SCALING = PAPER_SCALING

SIZE_AND_PROJECTION = {"layernorm", "layernorm_small", "scale", "scale_released"}
"""The four variants that cross the size of the keys with their projection."""

MAJORITY, RANDOM_KEYS, LANGUAGE_MODELS = "Majority task", "Random keys", "Language models"
PRETRAINED, STATEMENTS, VERDICTS = "Pretrained models", "Statements", "Verdicts"
"""The categories under which `snakemake --report` lists the figures."""

SECTIONS = ("majority", "language_model", "random_keys", "pretrained")
"""The sections of a reproduction's settings that say which figures it has."""


class Figure(NamedTuple):
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
    options: Mapping[str, Any]
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
        *_pretrained(pretrained, models),
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


_FILE = yaml.load((Path(__file__).parent / "figures.yaml").read_text(encoding="utf-8"), Loader=LOADER)
_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    name: {"category": category, "options": {}} | entry
    for category, entries in _FILE["figures"].items()
    for name, entry in entries.items()
}


def _figure(key: str, name: str = "", words: Mapping[str, str] | None = None, **options: Any) -> Figure:
    """The figure of an entry of figures.yaml; `words`, constants of `legends` and sentences fill in its caption."""
    entry = _ENTRIES[key]
    known = vars(legends) | {"fractions": ", ".join(legends.FRACTIONS.values())}
    known |= {name: text.format_map(known).strip() for name, text in _FILE["sentences"].items()}
    caption = " ".join(entry["caption"].format_map(known | (words or {})).split())
    given = entry["options"] | options
    return Figure(name or key, entry["draw"], tuple(entry["tables"]), caption, entry["category"], given)


# The majority task


def _trained(settings: Mapping[str, Any]) -> list[str]:
    """The variants that have at least one seed in the settings of an experiment or a model."""
    return [variant for variant, seeds in settings["seeds"].items() if seeds]


def is_single(settings: Mapping[str, Any]) -> bool:
    """Whether all runs of a majority experiment or language model have one width, learning rate and length.

    Only the keys of such models are judged; the others are for losses by learning rate and by length.
    """
    return all(len(_values(settings[key])) == 1 for key in ("d_model", "learning_rate", "steps"))


def _values(setting: Any) -> list[Any]:
    """The values of a setting that may be one value or a list of them."""
    return list(setting) if isinstance(setting, list | tuple) else [setting]


def _data_in_words(settings: Mapping[str, Any]) -> str:
    """How a majority experiment draws its partitions of the sequence length and splits them into two sets."""
    words = f"{settings['sampling'].replace('_', '-')} partitions, split by {settings['split']}"
    released = (settings["sampling"], settings["split"]) == ("depth_first", "rows")
    return f"released data ({words})" if released else words


def _setting(experiment: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the drawing functions need to know of an experiment with one width and one rate, besides the tables."""
    (d_model,) = settings["d_model"]
    paper = {"sequence_length": 50, "classes": 20, "sampling": "depth_first", "split": "rows"}
    return {
        "experiment": experiment,
        "d_model": d_model,
        "title": f"{experiment}: d_model = {d_model}, {_data_in_words(settings)}",
        "as_in_the_paper": d_model == 8 and all(settings[key] == value for key, value in paper.items()),
    }


def _in_words(experiment: str, settings: Mapping[str, Any]) -> str:
    widths = ", ".join(str(width) for width in settings["d_model"])
    return (
        f"Experiment {experiment}: sequences of {settings['sequence_length']} tokens from {settings['classes']} "
        f"classes, d_model = {widths}, {settings['steps']:,} steps, {_data_in_words(settings)}."
    )


def _majority(majority: Mapping[str, Mapping[str, Any]]) -> Iterator[Figure]:
    trained = {name: settings for name, settings in majority.items() if _trained(settings)}
    single = {name: settings for name, settings in trained.items() if is_single(settings)}
    words = {name: {"where": _in_words(name, settings)} for name, settings in trained.items()}
    if "d3" in single and single["d3"]["d_model"] == [3]:
        for key, variant in (("figure_1a", WITHOUT_PROJECTION), ("figure_1b", WITH_PROJECTION)):
            if variant in _trained(single["d3"]):
                yield _figure(key, experiment="d3", variant=variant)
    if "d8" in single and {*PAPER_PROJECTION} & {*_trained(single["d8"])}:
        setting = _setting("d8", single["d8"])
        diamonds = _FILE["sentences"]["diamonds"].strip() if setting["as_in_the_paper"] else ""
        for key in ("figure_2a", "figure_2b", "figure_3"):
            yield _figure(key, words=words["d8"] | {"marks": diamonds}, setting=setting)
    for name, settings in trained.items():
        variants = {*_trained(settings)}
        if name in single and variants >= SIZE_AND_PROJECTION:
            key = "size_and_projection"
            yield _figure(key, f"majority_{name}_{key}", words[name], setting=_setting(name, settings))
        if len(settings["d_model"]) > 1:
            key = "by_d_model_and_difference" if "scale" in variants and len(variants) > 1 else "by_d_model"
            yield _figure(key, f"majority_{name}_by_width", words[name], experiment=name)
        if len(settings["learning_rate"]) > 1:
            yield _figure("by_rate", f"majority_{name}_by_rate", words[name], experiment=name)
    if single:
        where = " ".join(words[name]["where"] for name in single)
        settings = [_setting(name, settings) for name, settings in single.items()]
        yield _figure("majority_curves", words={"where": where}, settings=settings)


# Random keys


def _random_keys(settings: Mapping[str, Any]) -> Iterator[Figure]:
    """Figures 1c, 1d and their companions; `settings` are those of the random keys, empty ones stand for any."""
    norms = set(settings["norms"]) if settings else {"none", "layernorm"}
    number = f"the {settings['matrices']:,} " if settings else ""
    for key, norm in (("figure_1c", "none"), ("figure_1d", "layernorm")):
        if norm in norms:
            yield _figure(key, words={"number": number}, norm=norm)
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
    variants = {name: found for name, model in models.items() if (found := _trained(model))}
    single = [name for name in variants if is_single(models[name])]
    gpts = [name for name in single if models[name]["architecture"] == "gpt"]
    compared = [name for name in single if variants[name] != [WITH_SCALING]]
    if PAPER_MODEL in single and {*PAPER_SCALING} & {*variants[PAPER_MODEL]}:
        yield from (_figure(key) for key in ("figure_4a", "figure_4b"))
    if panels := _by_rate({name: models[name] for name in variants}):
        yield _figure("loss_by_rate", panels=panels)
    without = {WITHOUT_SCALING, NO_ATTENTION_VARIANT}
    lengths = [name for name in variants if len(_values(models[name]["steps"])) > 1]
    lengths = [name for name in lengths if WITH_SCALING in variants[name] and without & {*variants[name]}]
    if lengths:
        yield _figure("loss_by_length", models=lengths)
    if others := [name for name in compared if name != PAPER_MODEL]:
        yield _figure("language_model_losses", models=others)
    in_heads = {*PAPER_SCALING, QUERY_KEY_VARIANT}
    shown = {
        name: [variant for variant in variants[name] if variant in in_heads or variant not in LEGENDS]
        for name in compared
        if name in gpts
    }
    if shown := {name: some for name, some in shown.items() if some}:
        yield _figure("figure_heads", models=shown)
    scaled = [models[name] for name in gpts if WITH_SCALING in variants[name]]
    if len({model["d_model"] // model["heads"] for model in scaled}) > 1:
        yield _figure("heads_by_width")


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


def _pretrained(
    pretrained: Mapping[str, Mapping[str, Any]], models: Mapping[str, Mapping[str, Any]]
) -> Iterator[Figure]:
    words = {
        name: {
            "texts": f"Pretrained model {name}, up to {model['contexts']} documents of {model['context_length']} "
            "tokens; a key counts once for every head."
        }
        for name, model in pretrained.items()
    }
    for name, key in product(pretrained, ("ceilings", "cut_heads")):
        yield _figure(f"pretrained_{key}", f"pretrained_{name}_{key}", words[name], model=name)
    # The GPTs with LayerNorm at a single rate and length, and with other variants beside it.
    gpts = [name for name, model in models.items() if model["architecture"] == "gpt" and is_single(model)]
    others = [name for name in gpts if {WITH_SCALING} < {*_trained(models[name])}]
    for name in pretrained:
        key = "pretrained_projection"
        yield _figure(key, f"pretrained_{name}_projection", words[name], model=name, others=others)
