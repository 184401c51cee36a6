"""A reproduction of random numbers: no two seeds, variants, layers, contexts, models or columns are alike.

Figures and readable tables are made from it, so that an exchange of any two of these is noticed.
"""

from functools import cache
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import worlds
from worlds import crossed, noise

from layernorm_roles import shown
from layernorm_roles.evidence import draw as drawing
from layernorm_roles.heads import ceilings
from layernorm_roles.schemas import SCHEMAS

OWN = "tanh"
"""A variant that is not built in."""

UNIFORM = {"sampling": "uniform", "split": "partitions"}
D8 = {"d_model": [8], "sequence_length": 50, "classes": 20, "learning_rate": [0.001], "steps": 6000}
D8 |= {"sampling": "depth_first", "split": "rows"}
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
GONE = {
    "majority_metrics": "experiment == 'rates' and variant == 'layernorm' and base_learning_rate == 0.1 or "
    "experiment == 'rates' and variant == 'scale' and base_learning_rate == 0.01 and seed == 2 and step > 1000 or "
    "experiment == 'widths' and variant == 'projected_v' and d_model == 3 and seed > 0",
    "language_model_metrics": "model == 'swept' and variant == 'layernorm' and base_learning_rate == 0.001 and "
    "steps == 400 and seed == 3 and step > 300",
}
"""Rows that tables lack: all runs of a rate, the end of a run, one of two runs of a width; the end of a run."""
LOST = {
    "majority_metrics": "experiment == 'widths' and variant == 'scale' and d_model == 8 and seed == 2 and step > 500",
    "language_model_metrics": "model == 'swept' and variant == 'projection' and base_learning_rate == 0.1 and "
    "seed == 0 and step == steps",
}
"""Rows of runs that have diverged."""
NUMBERS = (0, 2, 3, 5, 7, 11)
"""The seeds of runs."""
NORMS = {
    "quarter": {"like": "layernorm", "factor": 0.25, "part": "both"},
    "scale_half": {"like": "scale", "factor": 0.5, "part": "both"},
    OWN: "somebody:Tanh",
}
RANDOM_KEYS = {"keys": [4, 30], "dimensions": [3, 7], "matrices": 100}
RANDOM_KEYS["norms"] = ["none", "layernorm", "projection", OWN]
TOKENS = (" al", "b", "\ufffd", "w*", "|", " nan", "\n", "[x]", *(f"t{number}" for number in range(16)))


def of_runs(table: str, rng, name: str, settings, **values) -> list[pd.DataFrame]:
    """Rows of a table for every variant, seed, width and learning rate of an experiment, with random numbers."""
    points, seeds = {"base_learning_rate": (*settings["learning_rate"],)}, settings["seeds"].items()
    of_words = "text" in settings
    points |= (
        {"model": name, "query_key_rate": 1.0}
        if of_words
        else {"experiment": name, "d_model": (*settings["d_model"],)}
    )
    return [crossed(table, rng, variant=v, seed=NUMBERS[:n], **points, **values) for v, n in seeds if n]


def damaged(name: str, table: pd.DataFrame, *losses: str) -> pd.DataFrame:
    """A table without the rows GONE, and with infinite losses in those LOST."""
    table = table.assign(**{loss: table[loss].mask(table.eval(LOST[name]), np.inf) for loss in losses})
    return table.drop(table.query(GONE[name]).index).reset_index(drop=True)


def majority_metrics(majority=MAJORITY) -> pd.DataFrame:
    """Test losses that fall from about e at a pace of their own; one run begins with little."""
    rng, tables = noise(1), []
    for name, settings in majority.items():
        steps = tuple(np.linspace(0, settings["steps"], 6).astype(int))
        tables += of_runs("majority_metrics", rng, name, settings, step=steps)
    table = pd.concat(tables, ignore_index=True)
    run = ["experiment", "variant", "seed", "d_model", "base_learning_rate"]
    pace = table.groupby(run).test_loss.transform("first") / 2
    little = (table.experiment == "rates") & (table.variant == OWN) & (table.seed == 0)
    table["test_loss"] = np.exp(1 - pace * np.log1p(table.step) - 2 * little) * (0.9 + 0.1 * table.test_loss)
    table["query_angle_mean"] *= 80
    return damaged("majority_metrics", table, "test_loss")


def majority_vectors(majority=MAJORITY) -> pd.DataFrame:
    """Keys of length 0.5 to 1.5 and queries of half of it, of four classes in every run, untrained and trained."""
    rng, tables = noise(2), []
    places = {"checkpoint": ("initial", "final"), "kind": ("key", "query"), "token": range(4)}
    for name, settings in majority.items():
        tables += of_runs("majority_vectors", rng, name, settings, **places)
    table = pd.concat(tables, ignore_index=True)
    lengths = rng.uniform(0.5, 1.5, len(table)) * np.where(table.kind == "key", 1, 0.5)
    drawn = [rng.standard_normal(width) for width in table.d_model]
    return table.assign(vector=[v * size / np.linalg.norm(v) for v, size in zip(drawn, lengths, strict=True)])


def random_keys(norms=tuple(RANDOM_KEYS["norms"])) -> pd.DataFrame:
    """After LayerNorm no key is unselectable."""
    places = {"norm": norms, "n": (4, 9, 30), "d": (3, 4, 7), "matrices": 100, "n_borderline": 0}
    table = crossed("random_keys", noise(3), **places)
    return table.assign(any_unselectable=table.any_unselectable.mask(table.norm == "layernorm", 0.0))


gaussian_law = worlds.gaussian_law


def language_model_metrics(models=MODELS | RATE) -> pd.DataFrame:
    """Untrained models at loss 9, then losses between 6 and 8; token frequencies at 6.5 or so. One run diverges."""
    rng, tables = noise(5), []
    for name, settings in models.items():
        for steps in settings["steps"]:
            step = range(0, steps + 1, 100)
            tables += of_runs("language_model_metrics", rng, name, settings, steps=steps, step=step)
    table = pd.concat(tables, ignore_index=True)
    for column in ("train_loss", "valid_loss"):
        table[column] = (6 + 2 * table[column]).mask(table.step == 0, 9.0)
    numbers = table.model.map({name: number for number, name in enumerate(models)})
    table["unigram_loss"] = 6.5 + 0.1 * numbers + 0.01 * table.seed
    return damaged("language_model_metrics", table, "train_loss", "valid_loss")


BEGINS = dict(layernorm=100, projection_grown=200, quarter=300, shrunk_qk=400, layernorm_shrunk=400)
"""The step at which the first seed of a variant begins to attend; of the others later, if at all."""
INPUTS = dict(layernorm=1, layernorm_shrunk=0.03, projection=0.1, projection_grown=1, quarter=0.25)
"""Sizes of attention's input: 0.9 times as large in the first layer and 1.1 times in the second, and they grow."""


def language_model_attention() -> pd.DataFrame:
    """Of the model whose attention is looked at, and after it of another like it."""
    rng, tables = noise(21), []
    places = {"steps": 400, "step": range(0, 401, 20), "layer": (None, 1, 2)}
    for model in (*RATE, "gpt"):
        tables += of_runs("language_model_attention", rng, model, RATE["gpt_paper_rate"], **places)
    table = pd.concat(tables, ignore_index=True)
    table = table[(table.variant != "no_attention") | table.layer.isna()].astype({"layer": "Int64"})
    whole = table.layer.isna()
    first = table.variant.map(BEGINS).fillna(999) + 100 * table.seed
    worth = (0.02 * (table.step >= first)).where(table.variant != "no_attention", 0.0)
    size = table.variant.map(INPUTS).fillna(0.5) * (0.7 + 0.2 * table.layer.fillna(0).astype(int))
    table["input_rms"] = (size * (1 + 0.001 * table.step)).mask(whole)
    return table.assign(
        zero_scores_worth=worth.where(whole),
        mean_kept_worth=table.mean_kept_worth.where(whole),
        score_deviation=table.score_deviation.mask(whole),
    )


SITES = ("before_norm", "after_norm", "after_norm_exact", "head", "head_exact")


def key_selectability(models=MODELS) -> pd.DataFrame:
    """Counts of keys in models with one learning rate, in the heads also among the keys before each."""
    rng, tables = noise(6), []
    places = {"checkpoint": ("initial", "final"), "site": SITES, "layer": (1, 2), "context": range(2)}
    for name, settings in models.items():
        gpt = settings["architecture"] == "gpt"
        places |= {"model": name, "texts": ("long", "sentences") if gpt else "sentences"}
        for variant, seeds in settings["seeds"].items() if len(settings["learning_rate"]) == 1 else ():
            run = {"variant": variant, "seed": range(seeds), "head": (0, 1), "causal": (False, True)}
            table = crossed("key_selectability", rng, **places, **run)
            in_heads = table.site.str.startswith("head")
            d = np.where(in_heads, settings["d_model"] // settings["heads"], settings["d_model"])
            there = in_heads | ((table["head"] == 0) & ~table.causal)
            there &= (table.site != "head_exact") | (variant == "layernorm_qk")
            longer = 50 * (table.texts == "sentences") + 7 * (not gpt)
            tables.append(table.assign(dimensions=d, n_keys=900 + 10 * table.context + longer)[there])
    return pd.concat(tables, ignore_index=True)


def sentence_tokens() -> pd.DataFrame:
    """Tokens occur ten times, as often as Table 3 asks, but for one that stands in the place of the first."""
    rng, runs = noise(22), {"variant": ("projection", "layernorm"), "checkpoint": ("initial", "final")}
    places = {"seed": (3, 5), "layer": (1, 2), "context": range(12), "position": range(20)}
    table = crossed("sentence_tokens", rng, model="gpt", **runs, **places)
    text = np.resize(TOKENS, (12, 20))
    text[0, 0] = "rare"
    verdicts = rng.choice(["selectable", "unselectable", "borderline"], len(table), p=[0.6, 0.3, 0.1])
    return table.assign(token=text[table.context, table.position], verdict=verdicts)


def language_model_pairs() -> pd.DataFrame:
    """Ceilings and received attention of each key and head of the GPTs with scaling and without."""
    rng, parts = noise(16), []
    for model, variant in product(("gpt", "wide", "swept"), ("layernorm", "projection")):
        settings, queries = MODELS[model], ("any", "norm") if variant == "layernorm" else "any"
        run = {"model": model, "variant": variant, "seed": range(settings["seeds"][variant])}
        run |= {"checkpoint": ("initial", "final"), "queries": queries, "normalised": "as used"}
        d = settings["d_model"] // settings["heads"]
        parts.append(worlds.random_pairs(rng, **run, context=0, layer=1, dimensions=d))
    return pd.concat(parts, ignore_index=True)


def language_model_ceilings() -> pd.DataFrame:
    return worlds.ceilings(language_model_pairs())


def attention_pairs() -> pd.DataFrame:
    """Ceilings of each key and head of two pretrained models, of which one has no norm that is known."""
    rng, run = noise(4), {"variant": None, "seed": None, "checkpoint": "pretrained", "layer": (1, 2)}
    run["normalised"] = ("as used", "without norm")
    minilm = {"model": "minilm", "context": range(4), "dimensions": 32, "queries": ("any", "norm")}
    models = (minilm, {"model": "other", "context": 0, "dimensions": 64, "queries": "any"})
    parts = (worlds.random_pairs(rng, TOKENS, **run, **model) for model in models)
    return pd.concat(parts, ignore_index=True)


def attention_ceilings() -> pd.DataFrame:
    return worlds.ceilings(attention_pairs())


def token_ceilings() -> pd.DataFrame:
    """The pairs in the layer in which most keys cannot get half."""
    pairs = attention_pairs().query("model == 'minilm'").sort_values("position")
    places = pairs.drop_duplicates(["context", "position"])
    words = {context: part.token.tolist() for context, part in places.groupby("context")}
    return ceilings.of_tokens(pairs, words).assign(model="minilm")


def pretrained_keys() -> pd.DataFrame:
    places = {"model": "minilm", "layer": (1, 2), "context": range(3), "head": (0, 1)}
    cut = [crossed("pretrained_keys", noise(23, d), **places, site="head_cut", dimensions=d) for d in (2, 4)]
    whole = crossed("pretrained_keys", noise(23), **places, site="head", dimensions=8, causal=(False, True))
    table = pd.concat([whole, *(each.assign(causal=False) for each in cut)], ignore_index=True)
    return table.assign(n_keys=1000 + 100 * table.context)


def ones_share() -> pd.DataFrame:
    """The second norm, of the queries of a head, is no norm of the stream."""
    models = {"model": ("minilm", "other"), "variant": None, "seed": (None, 0)}
    table = crossed("ones_share", noise(17), **models, context=range(4), norm=(1, 2, 3))
    checkpoint = np.where(table.seed.isna(), "pretrained", "random")
    return table.assign(checkpoint=checkpoint, dimensions=np.where(table.norm == 2, 8, 32))


def language_model_ones_share() -> pd.DataFrame:
    rng, tables, places = noise(18), [], {"context": 0, "norm": (1, 2, 3), "checkpoint": ("initial", "final")}
    for name in ("gpt", "wide"):
        places |= {"dimensions": MODELS[name]["d_model"], "model": name}
        for variant, number in MODELS[name]["seeds"].items():
            run = {"variant": variant, "seed": range(number)}
            tables.append(crossed("language_model_ones_share", rng, **run, **places))
    return pd.concat(tables)


def projection_shift() -> pd.DataFrame:
    places = {"model": ("minilm", "other"), "context": range(4), "layer": (1, 2), "head": (0, 1)}
    table = crossed("projection_shift", noise(19), **places)
    return table.assign(change=table.model.map({"minilm": "left out", "other": "added"}))


def claims() -> pd.DataFrame:
    """A ratio three times as large as none, where the source has nine times; a difference beyond it; no number."""
    columns = (
        "claim source verdict measured ci_low ci_high reported control_measured control_low control_high"
    )
    nothing, paper, never = (np.nan,) * 3, "Brody, Alon and Yahav 2023, ", "inconclusive"
    rows = [
        ("faster", f"{paper}Figure 2a", "partial", 3, 9**0.25, np.inf, 9, 1, 1 / 9, 9),
        ("accurate", f"{paper}Figure 3", never, 4, -8, 12, -8, *nothing),
        ("table_1", f"{paper}Table 1", "holds", 100, 90, 110, 20, 10, 8, 12),
        ("zero", f"{paper}section 4", "partial", 1, 0, 2, 0, *nothing),
        ("geometry", "an essay", "holds", 1, -0.01, 2, 3, *nothing),
        ("loss_gap", f"{paper}Figure 4", never, *nothing, 0.05, *nothing),
    ]
    table = pd.DataFrame(rows, columns=columns.split()).assign(control="scale over layernorm")
    untrained = table.claim == "table_1"
    table["also_passed_by"] = np.where(untrained, "untrained models", None)
    table.loc[untrained, "control"] = "the same models untrained; and more"
    return table.reindex(columns=SCHEMAS["claims"].names)


# Statements


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
    table["gradient_norm"] = (10 ** (5 * table.gradient_norm - 3.5)).mask(lost, 0.0)
    over = (table.placement == "post") & table.residual & (table.depth == 2) & (table.seed == 2)
    return table.assign(gradient_norm=table.gradient_norm.mask(over, np.inf))


def position_probe() -> pd.DataFrame:
    places = PLACED | {"depth": (2, 3), "residual": (True, False), "step": (0, 40), "layer": (1, 2, 3)}
    table = crossed("position_probe", noise(20), **places, context_length=20)
    table = table[table.layer <= table.depth].reset_index(drop=True)
    lost = (table.placement == "post") & (table.learning_rate == 0.003) & (table.seed * table.step == 40)
    return table.assign(position_accuracy=table.position_accuracy.mask(lost & ~table.residual))


# Figures and readable tables


def settings(majority=MAJORITY) -> dict:
    pretrained = {"minilm": {"contexts": 4, "context_length": 200}}
    others = {"language_model": MODELS | RATE, "random_keys": RANDOM_KEYS, "pretrained": pretrained}
    return {"majority": majority, "norms": NORMS} | others


def figures(given=None) -> set[str]:
    """The names of the figures that a reproduction with some settings has, if it has every table."""
    groups = shown.groups_of(settings() if given is None else given, [*SCHEMAS])
    return {figure.name for group in groups for figure in group.figures}


class Tables(dict):
    """The tables, made when they are asked for, which many tests read and none changes."""

    def __missing__(self, name: str) -> pd.DataFrame:
        self[name] = globals()[name]()
        return self[name]


TABLES = Tables()


def draw(name: str, majority=MAJORITY, **changed: pd.DataFrame):
    """The figure called `name` from the world's tables, some of them replaced."""
    if majority is not MAJORITY:
        changed |= {"majority_metrics": majority_metrics(majority)}
    tables = {each: changed[each] if each in changed else TABLES[each] for each in shown.FIGURES[name].inputs}
    figure = drawing.draw(name, tables, settings(majority))
    plt.close(figure)  # as an object it goes on
    return figure


drawn = cache(draw)
"""A figure of the unchanged tables, which many tests read and none changes."""
