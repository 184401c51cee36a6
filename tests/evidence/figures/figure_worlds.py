"""Small tables in which every number differs, so that a figure that swaps columns, variants or signs is noticed.

And what a reader sees of a figure: the artists that look like an entry of a legend.
"""

from itertools import product

import numpy as np
import pandas as pd
import worlds
from matplotlib.collections import Collection
from matplotlib.colors import to_hex
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from worlds import crossed, noise

from layernorm_roles import shown
from layernorm_roles.evidence import draw as drawing
from layernorm_roles.evidence.legends import label
from layernorm_roles.schemas import SCHEMAS

OWN = "tanh"
"""A variant that is not built in."""

RELEASED = {"sampling": "depth_first", "split": "rows"}
UNIFORM = {"sampling": "uniform", "split": "partitions"}
D8 = {
    "d_model": [8],
    "sequence_length": 50,
    "classes": 20,
    "learning_rate": [0.001],
    "steps": 6000,
} | RELEASED
D3 = D8 | {"d_model": [3], "sequence_length": 30, "classes": 10, "steps": 60}
RATES, WIDTHS = [0.001, 0.01, 0.1], [3, 4, 8]
SEEDS = {"layernorm": 6, "scale_released": 5, "scale": 2, "projection": 1, OWN: 2}
THREE = {"layernorm": 3, "scale": 3, "scale_released": 3}
SPLIT = {"layernorm": 3, "scale": 4, "projected_qk": 3, "projected_v": 2, "layernorm_affine": 3}

MAJORITY = {
    "d8": D8 | {"seeds": SEEDS},
    "d3": D3 | {"seeds": SEEDS},
    "d8_uniform": D8 | UNIFORM | {"steps": 4000, "seeds": {"scale": 3, "layernorm": 2, "none": 0}},
    "mine": D8 | UNIFORM | {"d_model": [5], "steps": 50, "seeds": {OWN: 1}},
    "crossed": D8 | {"seeds": THREE | {"layernorm": 4, "layernorm_small": 3}},
    "rates": D8 | {"learning_rate": RATES, "steps": 3000, "seeds": THREE | {OWN: 2}},
    "widths": D8 | {"d_model": WIDTHS, "steps": 2000, "seeds": SPLIT},
}
GPT = {"architecture": "gpt", "text": "words", "d_model": 8, "heads": 4}
GPT |= {"learning_rate": [0.01], "steps": [400]}
PAIRS = {"layernorm": 3, "projection": 3, "no_attention": 2}
MODELS = {
    "gpt": GPT | {"seeds": PAIRS | {"layernorm_qk": 1, OWN: 2}},
    "wide": GPT | {"d_model": 64, "seeds": PAIRS | {"projection": 2, "no_attention": 3}},
    "bert": GPT | {"architecture": "bert", "seeds": {"none": 2, "layernorm": 2}},
    "swept": GPT | {"learning_rate": RATES, "steps": [200, 400], "seeds": PAIRS},
}
SIZES = {"layernorm_shrunk": 2, "projection_grown": 1, "shrunk_qk": 1, "quarter": 1}
RATE = {"gpt_paper_rate": GPT | {"seeds": PAIRS | SIZES}}
"""The model whose attention is looked at while it trains."""
NORMS = {
    "quarter": {"like": "layernorm", "factor": 0.25, "part": "both"},
    "scale_half": {"like": "scale", "factor": 0.5, "part": "both"},
    OWN: "somebody:Tanh",
}
"""The norms of the settings."""
TEXTS = {"gpt": ("long", "sentences"), "bert": ("sentences",)}
"""The texts whose keys are certified, by architecture."""
LOST = ("swept", "projection", 0.1, 0)
"""Model, variant, rate and seed of the run that diverges, at every length."""
PRETRAINED = {"minilm": {"contexts": 4, "context_length": 200}}
RANDOM_KEYS = {"keys": [4, 30], "dimensions": [3, 7], "matrices": 100}
RANDOM_KEYS["norms"] = ["none", "layernorm", "projection", OWN]


def attention_ceilings(summed=True) -> pd.DataFrame:
    """More keys below a half in the second layer than in the first, and without the norm.

    A row for each key of a head or, `summed`, the table's counts of them.
    """
    below = {"as used": (0.05, 0.3), "without norm": (0.1, 0.6)}
    pairs = worlds.ceiling_pairs(below, received=0.15)
    return worlds.ceilings(pairs) if summed else pairs


gaussian_law = worlds.gaussian_law


def ones_share() -> pd.DataFrame:
    """The second norm, of the queries of a head, is no norm of the stream."""
    models = {"model": ("minilm", "other"), "variant": None, "seed": (None, 0)}
    table = crossed("ones_share", noise(17), **models, context=range(4), norm=(1, 2, 3))
    checkpoint = np.where(table.seed.isna(), "pretrained", "random")
    return table.assign(checkpoint=checkpoint, dimensions=np.where(table.norm == 2, 8, 32))


def language_model_ones_share() -> pd.DataFrame:
    rng, tables = noise(18), []
    for model in ("gpt", "wide"):
        settings = MODELS[model]
        sizes = {"model": model, "context": 0, "norm": (1, 2, 3), "dimensions": settings["d_model"]}
        for variant, number in settings["seeds"].items():
            runs = {"variant": variant, "seed": range(number), "checkpoint": ("initial", "final")}
            tables.append(crossed("language_model_ones_share", rng, **runs, **sizes))
    return pd.concat(tables)


def projection_shift() -> pd.DataFrame:
    places = {"model": ("minilm", "other"), "context": range(4), "layer": (1, 2), "head": (0, 1)}
    table = crossed("projection_shift", noise(19), **places)
    return table.assign(change=table.model.map({"minilm": "left out", "other": "added"}))


def of_runs(table: str, rng, settings, **values) -> list[pd.DataFrame]:
    """Rows of a table for every variant, seed, width and learning rate of an experiment, with random numbers."""
    points = {"base_learning_rate": tuple(settings["learning_rate"])}
    points |= {} if table.startswith("language") else {"d_model": tuple(settings["d_model"])}
    seeds = settings["seeds"].items()
    return [crossed(table, rng, variant=v, seed=range(n), **points, **values) for v, n in seeds if n]


def majority_metrics(majority=MAJORITY) -> pd.DataFrame:
    """Test losses are around a level that every run has for itself."""
    rng, tables = noise(1), []
    for name, settings in majority.items():
        steps = tuple(np.linspace(0, settings["steps"], 6).astype(int))
        tables += of_runs("majority_metrics", rng, settings, experiment=name, step=steps)
    table = pd.concat(tables, ignore_index=True)
    run = ["experiment", "variant", "seed", "d_model", "base_learning_rate"]
    level = table.groupby(run).test_loss.transform("first")
    return table.assign(
        test_loss=level * (0.9 + 0.2 * table.test_loss), query_angle_mean=80 * table.query_angle_mean
    )


def majority_vectors(majority=MAJORITY) -> pd.DataFrame:
    """Keys of length 0.5 to 1.5 and queries of half of it, of four classes in every run, untrained and trained."""
    rng, tables = noise(2), []
    places = {"checkpoint": ("initial", "final"), "kind": ("key", "query"), "token": range(4)}
    for name, settings in majority.items():
        tables += of_runs("majority_vectors", rng, settings, experiment=name, **places)
    table = pd.concat(tables, ignore_index=True)
    drawn = [rng.standard_normal(width) for width in table.d_model]
    lengths = rng.uniform(0.5, 1.5, len(table)) * np.where(table.kind == "key", 1, 0.5)
    return table.assign(
        vector=[v * length / np.linalg.norm(v) for v, length in zip(drawn, lengths, strict=True)]
    )


def random_keys(norms=tuple(RANDOM_KEYS["norms"])) -> pd.DataFrame:
    """After LayerNorm no key is unselectable, and of OWN no exact number is known."""
    places = {"norm": norms, "n": (4, 9, 30), "d": (3, 4, 7), "matrices": 100, "n_borderline": 0}
    table = crossed("random_keys", noise(3), **places)
    share = table.any_unselectable.mask(table.norm == "layernorm", 0.0)
    exact = (table.n * share * table.expected_unselectable).mask(table.norm == OWN)
    return table.assign(
        any_unselectable=share, mean_unselectable=0.7 * table.n * share, expected_unselectable=exact
    )


def language_model_metrics(models=MODELS | RATE) -> pd.DataFrame:
    """Untrained models at loss 9, then losses between 6 and 8; token frequencies at 6.5 or so. One run diverges."""
    rng, tables = noise(5), []
    for name, settings in models.items():
        for steps in settings["steps"]:
            step = range(0, steps + 1, 100)
            tables += of_runs("language_model_metrics", rng, settings, model=name, steps=steps, step=step)
    table = pd.concat(tables, ignore_index=True)
    run = zip(table.model, table.variant, table.base_learning_rate, table.seed, strict=True)
    lost = np.array([each == LOST for each in run]) & (table.step == table.steps)
    for column in ("train_loss", "valid_loss"):
        table[column] = (6 + 2 * table[column]).mask(table.step == 0, 9.0).mask(lost, np.inf)
    numbers = table.model.map({name: number for number, name in enumerate(models)})
    return table.assign(unigram_loss=6.5 + 0.1 * numbers + 0.01 * table.seed)


BEGINS = {
    "layernorm": 100,
    "projection_grown": 200,
    "quarter": 300,
    "shrunk_qk": 400,
    "layernorm_shrunk": 400,
}
"""The step at which the first seed of a variant begins to attend; of the second ones 100 later, if at all."""


def language_model_attention() -> pd.DataFrame:
    """Runs of 400 steps and two layers, whose input has 0.9 and 1.1 times the size of a variant, and grows."""
    sizes = {
        "layernorm": 1,
        "layernorm_shrunk": 0.03,
        "projection": 0.1,
        "projection_grown": 1,
        "quarter": 0.25,
    }
    (model, settings), *_ = RATE.items()
    places = {"model": model, "steps": 400, "step": range(0, 401, 20), "layer": (None, 1, 2)}
    table = pd.concat(of_runs("language_model_attention", noise(21), settings, **places), ignore_index=True)
    table = table[(table.variant != "no_attention") | table.layer.isna()].astype({"layer": "Int64"})
    whole = table.layer.isna()
    first = table.variant.map(BEGINS).fillna(999) + 100 * table.seed
    worth = (0.03 * (table.step >= first)).where(table.variant != "no_attention", 0.0)
    size = table.variant.map(sizes).fillna(0.5) * (0.7 + 0.2 * table.layer.fillna(0).astype(int))
    return table.assign(
        zero_scores_worth=worth.where(whole),
        mean_kept_worth=table.mean_kept_worth.where(whole),
        input_rms=(size * (1 + 0.001 * table.step)).mask(whole),
        score_deviation=table.score_deviation.mask(whole),
    )


def key_selectability(models=MODELS) -> pd.DataFrame:
    """Shares that differ in every row; in the heads also those among the keys before, which other figures show."""
    rng, tables = noise(6), []
    for name, settings in models.items():
        if len(settings["learning_rate"]) > 1:
            continue  # keys are certified in models with one learning rate and length
        sites = ("before_norm", "after_norm", "head", "head_exact")
        places = {
            "model": name,
            "texts": TEXTS[settings["architecture"]],
            "context": range(2),
            "layer": (1, 2),
        }
        places |= {"checkpoint": ("initial", "final"), "site": sites, "head": (0, 1), "causal": (False, True)}
        for variant, seeds in settings["seeds"].items():
            run = {"variant": variant, "seed": range(seeds), "n_borderline": 0, **places}
            table = crossed("key_selectability", rng, **run)
            in_heads = table.site.str.startswith("head")
            d = np.where(in_heads, settings["d_model"] // settings["heads"], settings["d_model"])
            there = in_heads | ((table["head"] == 0) & ~table.causal)
            there &= (table.site != "head_exact") | (variant == "layernorm_qk")
            tables.append(table.assign(dimensions=d, n_keys=900 + 10 * table.context)[there])
    return pd.concat(tables, ignore_index=True)


def language_model_ceilings(summed=True) -> pd.DataFrame:
    """Ceilings and received attention of the GPTs with scaling and without, that differ in every row.

    A row for each key of a head or, `summed`, the table's counts of them.
    """
    rng, parts = noise(16), []
    for model, variant in product(("gpt", "wide", "swept"), ("layernorm", "projection")):
        settings, queries = MODELS[model], ("any", "norm") if variant == "layernorm" else "any"
        run = {"model": model, "variant": variant, "seed": range(settings["seeds"][variant])}
        run |= {"checkpoint": ("initial", "final"), "queries": queries, "normalised": "as used"}
        d = settings["d_model"] // settings["heads"]
        parts.append(worlds.random_pairs(rng, **run, context=0, layer=1, dimensions=d))
    pairs = pd.concat(parts, ignore_index=True)
    return worlds.ceilings(pairs) if summed else pairs


def claims() -> pd.DataFrame:
    """A ratio three times as large as none, where the source has nine times; a difference beyond it; no number."""
    columns = (
        "claim source verdict measured ci_low ci_high reported control_measured control_low control_high"
    )
    nothing, paper, never = (np.nan,) * 3, "Brody, Alon and Yahav 2023, ", "not tested"
    rows = [
        ("faster", f"{paper}Figure 2a", "partial", 3, 9**0.25, np.inf, 9, 1, 1 / 9, 9),
        ("accurate", f"{paper}Figure 3", never, 4, -8, 12, -8, *nothing),
        ("table_1", f"{paper}Table 1", "reproduced", 100, 90, 110, 20, 10, 8, 12),
        ("zero", f"{paper}section 4", "partial", 1, 0, 2, 0, *nothing),
        ("geometry", "an essay", "holds", 1, 0, 2, 3, *nothing),
        ("loss_gap", f"{paper}Figure 4", never, *nothing, 0.05, *nothing),
    ]
    table = pd.DataFrame(rows, columns=columns.split()).assign(control="scale over layernorm")
    untrained = table.claim == "table_1"
    table["also_passed_by"] = np.where(untrained, "untrained models", None)
    table.loc[untrained, "control"] = "the same models untrained; and more"
    return table.reindex(columns=SCHEMAS["claims"].names)


def geometry() -> pd.DataFrame:
    """One row is on something else."""
    eps = {"eps_placement": ("inside", "outside"), "eps": (1e-5, 1e-12)}
    inputs = {"norm": "layernorm", "n": (3, 64, 512), "input_norm": (1e-3, 1.0, 1e3)}
    table = crossed("geometry", noise(7), **inputs, quantity=("difference_from_torch", "radius_mean"), **eps)
    table.loc[len(table)] = ("layernorm", 3, None, 0.0, np.nan, "rank", 2.0)
    return table


def geometry_cloud() -> pd.DataFrame:
    stages = {"norm": ("layernorm", "rmsnorm"), "stage": ("x", "f", "g", "h"), "point": range(6)}
    table = crossed("geometry_cloud", noise(8), **stages)
    return table[(table.norm == "layernorm") | (table.stage != "f")]


def fusion() -> pd.DataFrame:
    """`plain` is exact to rounding."""
    runs = {"arrangement": ("plain", "norm", "residual", "residual_norm"), "seed": (0, 1), "layer": (1, 2)}
    random = crossed("fusion", noise(9), source="random", d=(8, 32), **runs)
    table = pd.concat([random, crossed("fusion", noise(9), source="language_model", d=8, **runs)])
    return table.assign(error=table.error.mask(table.arrangement == "plain", 1e-29 * table.error))


PLACED = {"placement": ("pre", "post"), "depth": (2, 6), "learning_rate": (0.001, 0.003), "seed": (0, 1)}


def placement() -> pd.DataFrame:
    """One run has diverged."""
    table = crossed("placement", noise(10), **PLACED, step=range(40))
    lost = (table.placement == "post") & (table.depth == 6) & (table.learning_rate * table.seed == 0.003)
    return table.assign(train_loss=(3 + table.train_loss).mask(lost & (table.step > 9), np.inf))


def untrained_gradients() -> pd.DataFrame:
    places = {"placement": ("pre", "post", "none"), "residual": (True, False), "depth": (2, 4)}
    table = crossed("untrained_gradients", noise(15), **places, seed=(0, 1, 2))
    lost = (table.placement == "none") & ~table.residual & (table.depth == 4) & (table.seed == 1)
    return table.assign(gradient_norm=(10 ** (5 * table.gradient_norm - 3.5)).mask(lost, 0.0))


def position_probe() -> pd.DataFrame:
    places = PLACED | {"depth": (2, 3), "residual": (True, False), "step": (0, 40), "layer": (1, 2, 3)}
    table = crossed("position_probe", noise(20), **places, context_length=20)
    table = table[table.layer <= table.depth].reset_index(drop=True)
    lost = (table.placement == "post") & (table.learning_rate == 0.003) & (table.seed * table.step == 40)
    return table.assign(position_accuracy=table.position_accuracy.mask(lost & ~table.residual))


def batch_dependence() -> pd.DataFrame:
    rng, runs = noise(12), {"norm": ("layernorm", "batchnorm"), "batch_size": (2, 4, 8), "seed": (0, 1, 2)}
    effects = [("others", 0.0), ("padding", (0.25, 0.5))]
    return pd.concat([crossed("batch_dependence", rng, effect=e, padding=p, **runs) for e, p in effects])


def score_scale() -> pd.DataFrame:
    source, runs = ("normal", "normal_mean_1"), {"seed": (0, 1), "d_k": (4, 8, 32)}
    return crossed("score_scale", noise(13), source=source, **runs, divided=(False, True))


def tables(name: str, majority=MAJORITY) -> dict[str, pd.DataFrame]:
    """The artificial tables that the figure called `name` is drawn from."""
    makers, names = globals(), shown.FIGURES[name].inputs
    return {each: makers[each](majority) if each.startswith("majority") else makers[each]() for each in names}


def settings(majority=MAJORITY) -> dict:
    others = {"language_model": MODELS | RATE, "random_keys": RANDOM_KEYS, "pretrained": PRETRAINED}
    return {"majority": majority, "norms": NORMS} | others


def figures(given=None) -> set[str]:
    """The names of the figures that a reproduction with some settings has, if it has every table."""
    groups = shown.groups_of(settings() if given is None else given, [*SCHEMAS])
    return {figure.name for group in groups for figure in group.figures}


def draw(name: str, majority=MAJORITY, **changed: pd.DataFrame):
    """The figure called `name` from the world's tables, some of them replaced."""
    return drawing.draw(name, tables(name, majority) | changed, settings(majority))


# What a reader sees


def shows(line, values: pd.Series, by: pd.Series | str, geometric=False) -> None:
    """The line has the means of the values over each value of `by`, in its order."""
    means = np.exp(np.log(values).groupby(by).mean()) if geometric else values.groupby(by).mean()
    np.testing.assert_allclose(line.get_ydata(), means, rtol=1e-9, atol=1e-12)


def shows_gaps(axes, metrics: pd.DataFrame, column: str) -> None:
    """The line of every variant but LayerNorm has its mean difference from LayerNorm over equal seeds, by the steps."""
    wide = metrics.pivot(index=["step", "seed"], columns="variant", values=column)
    for variant in wide.columns.drop("layernorm"):
        shows(curve(axes, name(variant)), (wide[variant] - wide.layernorm).dropna(), "step")


def handles(figure) -> dict:
    """The entries of all legends of a figure by their texts."""
    entries = ((legend.get_texts(), legend.legend_handles) for legend in figure.findobj(Legend))
    return {text.get_text(): handle for pair in entries for text, handle in zip(*pair, strict=True)}


def name(variant: str) -> str:
    """How the legend's entry of a variant begins, before its number of seeds."""
    return f"{label(variant)}, "


def labels(figure) -> list[str]:
    return list(handles(figure))


def _look(line: Line2D) -> tuple:
    """What tells lines apart: colour, stroke, width, and the form, edge and filling of the marks."""
    stroke = str(line._unscaled_dash_pattern) if line.get_linestyle() != "None" else None
    width = (to_hex(line.get_color()), line.get_linewidth()) if stroke else None
    form = str(line.get_marker())
    filling = to_hex(line.get_markerfacecolor()) if line.get_markerfacecolor() != "none" else "none"
    marks = (form, to_hex(line.get_markeredgecolor()), filling) if form != "None" else None
    return stroke, width, marks


GREYS = {"#555555", "#000000"}
"""Colours of entries that stand for artists in all colours."""


def _alike(entry: tuple, drawn: tuple) -> bool:
    """Whether a line looks like an entry; one in grey or black tells the stroke or the form of the mark alone."""
    stroke, width, marks = entry
    if not GREYS & {width and width[0], marks and marks[1]}:
        return entry == drawn
    if stroke != drawn[0] or (width and width[1] != drawn[1][1]) or bool(marks) != bool(drawn[2]):
        return False
    hollow = [{"#ffffff": "white", "none": "none"}.get(look[2], "full") for look in (marks, drawn[2]) if look]
    return not marks or (marks[0] == drawn[2][0] and len(set(hollow)) == 1)


def like(axes, handle) -> list:
    """The artists of axes that look like an entry of a legend: lines, or areas and points of its colour."""
    found = [line for line in axes.lines if len(line.get_xdata()) and _alike(_look(handle), _look(line))]
    colour = to_hex(handle.get_color())
    for item in [*axes.collections, *axes.patches] if not found else []:
        tones = [*np.atleast_2d(item.get_facecolor()), *np.atleast_2d(item.get_edgecolor())]
        if isinstance(item, Collection | Patch) and colour in {to_hex(tone) for tone in tones if len(tone)}:
            found.append(item)
    return found


def named(axes, label: str) -> list:
    """The artists of axes that look like the legend's entry that begins with `label`, the shortest if several do."""
    entries = handles(axes.get_figure(root=True))
    return like(axes, entries[min((text for text in entries if text.startswith(label)), key=len)])


def curve(axes, label: str) -> Line2D:
    """The one line of more than one point that looks like the entry that begins with `label`."""
    (line,) = [line for line in named(axes, label) if len(line.get_xdata()) > 1]
    return line
