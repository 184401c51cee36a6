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

from layernorm_roles.evidence.figures import registry
from layernorm_roles.schemas import SCHEMAS

OWN = "tanh"
"""A variant that is not built in."""

RELEASED = {"sampling": "depth_first", "split": "rows"}
UNIFORM = {"sampling": "uniform", "split": "partitions"}
D8 = {
    "d_model": [8],
    "learning_rate": [0.001],
    "sequence_length": 50,
    "classes": 20,
    "steps": 6000,
    **RELEASED,
}
D3 = {**D8, "d_model": [3], "sequence_length": 30, "classes": 10, "steps": 60}
RATES, WIDTHS = [0.001, 0.01, 0.1], [3, 4, 8]
SEEDS = {"layernorm": 6, "scale_released": 5, "scale": 2, "projection": 1, OWN: 2}

MAJORITY = {
    "d8": {**D8, "seeds": SEEDS},
    "d3": {**D3, "seeds": SEEDS},
    "d8_uniform": {**D8, **UNIFORM, "steps": 4000, "seeds": {"scale": 3, "layernorm": 2, "none": 0}},
    "mine": {**D8, **UNIFORM, "d_model": [5], "steps": 50, "seeds": {OWN: 1}},
    "crossed": {
        **D8,
        "seeds": {"layernorm": 4, "scale": 3, "scale_released": 3, "layernorm_small": 3},
    },
    "rates": {
        **D8,
        "learning_rate": RATES,
        "steps": 3000,
        "seeds": {"layernorm": 3, "scale": 3, "scale_released": 3, OWN: 2},
    },
    "widths": {
        **D8,
        "d_model": WIDTHS,
        "steps": 2000,
        "seeds": {"layernorm": 3, "scale": 4, "projected_qk": 3, "projected_v": 2, "layernorm_affine": 3},
    },
}
GPT = {
    "architecture": "gpt",
    "text": "words",
    "d_model": 8,
    "heads": 4,
    "learning_rate": [0.01],
    "steps": [400],
}
MODELS = {
    "gpt": {
        **GPT,
        "seeds": {"layernorm": 3, "projection": 3, "layernorm_qk": 1, "no_attention": 2, OWN: 2},
    },
    "wide": {**GPT, "d_model": 64, "seeds": {"layernorm": 3, "projection": 2, "no_attention": 3}},
    "bert": {**GPT, "architecture": "bert", "seeds": {"none": 2, "layernorm": 2}},
    "swept": {
        **GPT,
        "learning_rate": RATES,
        "steps": [200, 400],
        "seeds": {"layernorm": 3, "projection": 3, "no_attention": 2},
    },
}
LOST = ("swept", "projection", 0.1, 0)
"""Model, variant, rate and seed of the run that diverges, at every length."""
PRETRAINED = {"minilm": {"contexts": 4, "context_length": 200}}
RANDOM_KEYS = {
    "keys": [4, 30],
    "dimensions": [3, 7],
    "matrices": 100,
    "norms": ["none", "layernorm", "projection", OWN],
}


def attention_ceilings(summed=True) -> pd.DataFrame:
    """More keys below a half in the second layer than in the first, and without the norm.

    A row for each key of a head or, `summed`, the table's counts of them.
    """
    below = {"as used": (0.05, 0.3), "without norm": (0.1, 0.6)}
    pairs = worlds.ceiling_pairs(below, received=0.15)
    return worlds.ceilings(pairs) if summed else pairs


def token_ceilings() -> pd.DataFrame:
    """The pairs of the second of these layers."""
    below = {"as used": (0.05, 0.3), "without norm": (0.1, 0.6)}
    return worlds.token_ceilings(worlds.ceiling_pairs(below, received=0.15))


def pretrained_keys() -> pd.DataFrame:
    """Fewer unselectable keys the more dimensions, none in whole heads."""
    cuts = {2: (0.9, 0.8), 8: (0.1, 0.05), 16: (0.02, 0.0)}
    return worlds.pretrained_keys({("head", 32): 0.0} | {("head_cut", d): share for d, share in cuts.items()})


gaussian_law = worlds.gaussian_law


def ones_share() -> pd.DataFrame:
    """Shares along the ones vector that differ in every row; the norm of a head's queries is no norm of the stream."""
    rng, rows = np.random.default_rng(17), []
    for model, seed, context, norm in product(("minilm", "other"), (None, 0), range(4), (1, 2, 3)):
        checkpoint, d = "pretrained" if seed is None else "random", 8 if norm == 2 else 32
        row = (model, None, seed, checkpoint, context, norm, f"norm_{norm}", d, rng.uniform(0.001, 0.9))
        rows.append(row)
    return pd.DataFrame(rows, columns=SCHEMAS["ones_share"].names)


def language_model_ones_share(models=MODELS) -> pd.DataFrame:
    rng, rows = np.random.default_rng(18), []
    for model, settings in models.items():
        for (variant, seed), checkpoint, norm in product(
            runs(settings["seeds"]), ("initial", "final"), (1, 2, 3)
        ):
            place = (model, variant, seed, checkpoint, 0, norm, f"norm_{norm}", settings["d_model"])
            rows.append((*place, rng.uniform(0.001, 0.9)))
    return pd.DataFrame(rows, columns=SCHEMAS["language_model_ones_share"].names)


def projection_shift() -> pd.DataFrame:
    rng = np.random.default_rng(19)
    rows = [
        (model, context, layer, head, change, *rng.uniform(size=2))
        for model, change in (("minilm", "left out"), ("other", "added"))
        for context, layer, head in product(range(4), (1, 2), (0, 1))
    ]
    return pd.DataFrame(rows, columns=SCHEMAS["projection_shift"].names)


def runs(seeds: dict[str, int]) -> list[tuple[str, int]]:
    return [(variant, seed) for variant, number in seeds.items() for seed in range(number)]


def points(settings) -> list[tuple[int, float]]:
    """The widths and learning rates of an experiment."""
    return list(product(settings["d_model"], settings["learning_rate"]))


def majority_metrics(majority=MAJORITY) -> pd.DataFrame:
    """Losses fall and accuracies rise around a level that every run has for itself."""
    rng, rows = np.random.default_rng(1), []
    for experiment, settings in majority.items():
        for (variant, seed), point in product(runs(settings["seeds"]), points(settings)):
            level = rng.uniform(0.3, 0.9, 6)
            for step in np.linspace(0, settings["steps"], 6).astype(int):
                values = level * rng.uniform(0.9, 1.1, 6)
                angle, spread = 80 * values[3], rng.uniform(1, 9)
                rows.append(
                    (experiment, variant, seed, *point, step, *values[:3], angle, spread, *values[4:], 0.001)
                )
    return pd.DataFrame(rows, columns=SCHEMAS["majority_metrics"].names)


def majority_vectors(majority=MAJORITY) -> pd.DataFrame:
    """Keys of length 0.5 to 1.5 and queries of half of it, of four classes in every run, untrained and trained."""
    rng, rows = np.random.default_rng(2), []
    for experiment, settings in majority.items():
        for (variant, seed), (width, rate), checkpoint in product(
            runs(settings["seeds"]), points(settings), ("initial", "final")
        ):
            for (kind, length), token in product((("key", 1.0), ("query", 0.5)), range(4)):
                vector = rng.standard_normal(width)
                vector *= length * rng.uniform(0.5, 1.5) / np.linalg.norm(vector)
                rows.append((experiment, variant, seed, width, rate, checkpoint, token, kind, vector))
    return pd.DataFrame(rows, columns=SCHEMAS["majority_vectors"].names)


def random_keys(norms=tuple(RANDOM_KEYS["norms"])) -> pd.DataFrame:
    rng, rows = np.random.default_rng(3), []
    for norm, n, d in product(norms, (4, 9, 30), (3, 4, 7)):
        share = 0.0 if norm == "layernorm" else rng.uniform(0.1, 0.9)
        exact = {"layernorm": 0.0, OWN: None}.get(norm, n * share * rng.uniform(0.5, 1))
        rows.append((norm, n, d, 100, share, n * share * 0.7, rng.uniform(0.5, 1), exact, 0, 0.1, 0.1))
    columns = ["any_unselectable", "mean_unselectable", "std_unselectable", "expected_unselectable"]
    columns = ["norm", "n", "d", "matrices", *columns, "n_borderline", "min_margin", "max_residual"]
    return pd.DataFrame(rows, columns=columns).astype({"expected_unselectable": float})


def random_keys_precision() -> pd.DataFrame:
    rng, rows = np.random.default_rng(4), []
    for dtype, eps, n, d in product(("float64", "float32"), (0.0, 1e-5), (4, 9, 30), (3, 4, 7)):
        hits, borderline = rng.integers(1, 99), rng.integers(1, 99)
        rows.append((dtype, eps, n, d, 100, hits / 100, 0.1, borderline, 0.1))
    columns = ["any_unselectable", "mean_unselectable", "n_borderline", "min_margin"]
    return pd.DataFrame(rows, columns=["dtype", "eps", "n", "d", "matrices", *columns])


def language_model_metrics(models=MODELS) -> pd.DataFrame:
    """Untrained models at loss 9, then losses between 6 and 8; token frequencies at 6.5 or so. One run diverges."""
    rng, rows = np.random.default_rng(5), []
    for number, (model, settings) in enumerate(models.items()):
        points = product(settings["learning_rate"], settings["steps"])
        for (rate, steps), (variant, seed) in product(points, runs(settings["seeds"])):
            for step in range(0, steps + 1, 100):
                losses = (9.0, 9.0) if step == 0 else rng.uniform(6, 8, 2)
                if (model, variant, rate, seed) == LOST and step == steps:
                    losses = (np.inf, np.inf)
                unigram = 6.5 + 0.1 * number + 0.01 * seed
                rows.append((model, variant, seed, rate, steps, step, 10 * step, *losses, unigram))
    columns = ["base_learning_rate", "steps", "step", "tokens", "train_loss", "valid_loss", "unigram_loss"]
    return pd.DataFrame(rows, columns=["model", "variant", "seed", *columns])


def key_selectability(models=MODELS) -> pd.DataFrame:
    """Shares that differ in every row; in the heads also those among the keys before, which other figures show."""
    rng, rows = np.random.default_rng(6), []
    for model, settings in models.items():
        sizes = {"before_norm": settings["d_model"], "after_norm": settings["d_model"]}
        sizes |= dict.fromkeys(("head", "head_exact"), settings["d_model"] // settings["heads"])
        for (variant, seed), checkpoint, texts, context, layer in product(
            runs(settings["seeds"]), ("initial", "final"), ("long", "sentences"), range(2), (1, 2)
        ):
            for site, d in sizes.items():
                if site == "head_exact" and variant != "layernorm_qk":
                    continue
                in_head = site.startswith("head")
                for head, causal in product((0, 1) if in_head else (None,), (False, True)[: 1 + in_head]):
                    n = 900 + 10 * context
                    place = (model, variant, seed, checkpoint, texts, context, layer, site, head, causal)
                    rows.append((*place, n, d, int(rng.integers(0, n)), 0, 0.1, 0.1))
    return pd.DataFrame(rows, columns=SCHEMAS["key_selectability"].names)


def language_model_ceilings(models=MODELS, summed=True) -> pd.DataFrame:
    """Ceilings and received attention that differ in every row, lower behind the norm and after training.

    A row for each key of a head or, `summed`, the table's counts of them.
    """
    rng, parts = np.random.default_rng(16), []
    gpts = {name: settings for name, settings in models.items() if settings["architecture"] == "gpt"}
    for model, settings in gpts.items():
        d = settings["d_model"] // settings["heads"]
        for (variant, seed), checkpoint, queries, head in product(
            runs(settings["seeds"]), ("initial", "final"), ("any", "norm"), (0, 1)
        ):
            if variant not in ("layernorm", "projection") or (variant, queries) == ("projection", "norm"):
                continue
            power = (1 + (queries == "norm")) * (1 + (checkpoint == "final")) * d**-0.5
            upper = 10 ** (-power * rng.uniform(0, 3, 60))
            place = {"context": 0, "layer": 1, "head": head, "position": range(60), "token": "a"}
            sizes = {"normalised": "as used", "n_keys": 60, "dimensions": d}
            bounds = {"lower": 0.999 * upper, "upper": upper}
            got = {"received_max": upper * rng.uniform(0, 1, 60)}
            run = {"model": model, "variant": variant, "seed": seed, "checkpoint": checkpoint}
            columns = run | place | {"queries": queries} | sizes | bounds | got
            parts.append(pd.DataFrame(columns))
    pairs = pd.concat(parts, ignore_index=True)
    return worlds.ceilings(pairs) if summed else pairs


def claims() -> pd.DataFrame:
    """A ratio three times as large as none, where the source has nine times; a difference beyond it; no number."""
    columns = ["claim", "source", "measured", "ci_low", "ci_high", "reported", "control"]
    columns += ["control_measured", "control_low", "control_high", "verdict", "also_passed_by"]
    nothing, paper = (np.nan,) * 3, "Brody, Alon and Yahav 2023, "
    scale, untrained = "scale over layernorm", "the same models untrained; and more"
    rows = [
        ("faster", f"{paper}Figure 2a", 3, 9**0.25, np.inf, 9, scale, 1, 1 / 9, 9, "partial", None),
        ("accurate", f"{paper}Figure 3", 4, -8, 12, -8, scale, *nothing, "not tested", None),
        (
            "table_1",
            f"{paper}Table 1",
            100,
            90,
            110,
            20,
            untrained,
            10,
            8,
            12,
            "reproduced",
            "untrained models",
        ),
        ("zero", f"{paper}section 4", 1, 0, 2, 0, scale, *nothing, "partial", None),
        ("geometry", "an essay", 1, 0, 2, 3, scale, *nothing, "holds", None),
        ("loss_gap", f"{paper}Figure 4", *nothing, 0.05, scale, *nothing, "not tested", None),
    ]
    table = pd.DataFrame(rows, columns=columns)
    return table.reindex(columns=SCHEMAS["claims"].names)


def geometry() -> pd.DataFrame:
    rng, rows = np.random.default_rng(7), []
    quantities = ("difference_from_torch", "radius_mean", "error")
    dtypes, lengths = ("float16", "float32", "float64"), (1e-3, 1.0, 1e3)
    for n, dtype, place, eps, length, offset, quantity in product(
        (3, 64, 512), dtypes, ("inside", "outside"), (1e-5, 1e-12), lengths, (0.0, 1000.0), quantities
    ):
        value = rng.uniform(0.1, 0.9)
        if dtype == "float16" and length == 1e3:
            value = np.inf
        rows.append(("layernorm", n, dtype, place, eps, length, offset, quantity, value))
    rows.append(("layernorm", 3, "float64", None, 0.0, np.nan, 0.0, "rank", 2.0))
    columns = ["norm", "n", "dtype", "eps_placement", "eps", "input_norm", "offset", "quantity", "value"]
    return pd.DataFrame(rows, columns=columns)


def geometry_cloud() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    stages = {"layernorm": "xfgh", "rmsnorm": "xgh"}
    rows = [
        (norm, stage, point, *rng.standard_normal(3))
        for norm, letters in stages.items()
        for stage in letters
        for point in range(6)
    ]
    return pd.DataFrame(rows, columns=["norm", "stage", "point", "x1", "x2", "x3"])


def fusion() -> pd.DataFrame:
    """`plain` is exact to rounding, and `residual` is for a map of stream and heads."""
    rng, rows = np.random.default_rng(9), []
    arrangements = ("plain", "norm", "residual", "residual_norm")
    sources = [("random", None, d, factor) for d in (8, 32) for factor in (0.5, 1, 2)]
    sources.append(("language_model", "layernorm", 8, 1))
    for (source, variant, d, factor), seed, layer, arrangement, inputs in product(
        sources, (0, 1), (1, 2), arrangements, ("heads", "stream_and_heads")
    ):
        exact = arrangement == "plain" or (arrangement, inputs) == ("residual", "stream_and_heads")
        error = rng.uniform(1, 9) * (1e-30 if exact else 0.1)
        single = int(rng.integers(10, 90)) + int(100 * factor)
        heads, sizes = int(d * factor), (4 * d, 96, 96)
        names = (source, variant, seed, layer, arrangement, inputs)
        rows.append((*names, d, heads, *sizes, error, 4, 4, 100, single))
    columns = ["source", "variant", "seed", "layer", "arrangement", "inputs", "d", "d_heads", "d_ff", "n_fit"]
    ranks = ["rank_w_o", "rank_product", "parameters_pair", "parameters_single"]
    return pd.DataFrame(rows, columns=[*columns, "n_held_out", "error", *ranks])


def placement() -> pd.DataFrame:
    rng, rows = np.random.default_rng(10), []
    for kind, depth, rate, warmup, seed in product(("pre", "post"), (2, 6), (0.001, 0.003), (0, 50), (0, 1)):
        status = rng.choice(["trained", "stuck", "diverged"])
        for step in range(40):
            losses = rng.uniform(3, 4, 2)
            rows.append((kind, depth, rate, warmup, seed, step, *losses, status))
    columns = ["placement", "depth", "learning_rate", "warmup", "seed", "step"]
    return pd.DataFrame(rows, columns=[*columns, "train_loss", "unigram_loss", "status"])


def placement_gradients() -> pd.DataFrame:
    rng, rows = np.random.default_rng(11), []
    for kind, depth, rate, warmup, seed, step in product(
        ("pre", "post"), (2, 6), (0.001, 0.003), (0, 50), (0, 1), (0, 10, 20, 30)
    ):
        for layer in range(1, depth + 1):
            norm = np.inf if (kind, seed, layer) == ("post", 1, 1) else 10 ** rng.uniform(-3, 1)
            rows.append((kind, depth, rate, warmup, seed, step, layer, norm))
    columns = ["placement", "depth", "learning_rate", "warmup", "seed", "step", "layer", "gradient_norm"]
    return pd.DataFrame(rows, columns=columns)


def placement_scales() -> pd.DataFrame:
    rng, rows = np.random.default_rng(14), []
    for kind, depth, rate, warmup, seed, step in product(
        ("pre", "post"), (2, 6), (0.001, 0.003), (0, 50), (0, 1), (0, 40)
    ):
        for layer, part in product(range(1, depth + 1), ("attention", "feed_forward")):
            lost = (kind, rate, seed, step) == ("post", 0.003, 1, 40)
            sizes = (np.inf, np.inf) if lost else 10 ** rng.uniform(-1, 1, 2)
            rows.append((kind, depth, rate, warmup, seed, step, layer, part, *sizes))
    columns = ["placement", "depth", "learning_rate", "warmup", "seed", "step", "layer", "part"]
    return pd.DataFrame(rows, columns=[*columns, "input_rms", "stream_rms"])


def untrained_gradients() -> pd.DataFrame:
    rng, rows = np.random.default_rng(15), []
    for kind, residual, depth, seed in product(("pre", "post", "none"), (True, False), (2, 4), (0, 1, 2)):
        for layer in range(1, depth + 1):
            lost = (kind, residual, depth, seed, layer) == ("none", False, 4, 1, 1)
            norm = 0.0 if lost else 10 ** rng.uniform(-3, 1)
            rows.append((kind, residual, depth, seed, layer, norm))
    columns = ["placement", "residual", "depth", "seed", "layer", "gradient_norm"]
    return pd.DataFrame(rows, columns=columns)


def position_probe() -> pd.DataFrame:
    """Accuracies that differ in every row, of networks of two depths; one run diverged."""
    rng, rows = np.random.default_rng(20), []
    for kind, depth, rate, seed, residual, step in product(
        ("pre", "post"), (2, 3), (0.001, 0.003), (0, 1), (True, False), (0, 40)
    ):
        lost = (kind, rate, seed, residual, step) == ("post", 0.003, 1, False, 40)
        for layer in range(1, depth + 1):
            share = np.nan if lost else rng.uniform(0.05, 1)
            rows.append((kind, depth, rate, 0, seed, residual, 20, step, layer, share, 4.0))
    return pd.DataFrame(rows, columns=SCHEMAS["position_probe"].names)


def batch_dependence() -> pd.DataFrame:
    rng, rows = np.random.default_rng(12), []
    for norm, size, seed in product(("layernorm", "batchnorm"), (2, 4, 8), (0, 1, 2)):
        rows += [(norm, effect, size, 0.0, seed, rng.uniform()) for effect in ("others", "mode")]
        rows += [(norm, "padding", size, share, seed, rng.uniform()) for share in (0.25, 0.5)]
    return pd.DataFrame(rows, columns=["norm", "effect", "batch_size", "padding", "seed", "change"])


def score_scale() -> pd.DataFrame:
    rng, rows = np.random.default_rng(13), []
    keys = [("normal", None, seed, 1, 0, d) for seed in (0, 1) for d in (4, 8, 32)]
    keys += [("normal_mean_1", None, 0, 1, 0, 4)]
    keys += [("language_model", "layernorm", 0, layer, head, 2) for layer in (1, 2) for head in (0, 1)]
    keys += [("majority", "scale", 0, 1, 0, 8)]
    for key, divided in product(keys, (False, True)):
        rows.append((*key, 128.0, divided, *rng.uniform(0.1, 0.9, 5)))
    columns = ["source", "variant", "seed", "layer", "head", "d_k", "n_keys", "divided"]
    values = ["score_mean", "score_std", "entropy", "entropy_share", "gradient"]
    return pd.DataFrame(rows, columns=[*columns, *values])


def table(name: str, majority=MAJORITY) -> pd.DataFrame:
    """One table of the world, as its maker above makes it."""
    return globals()[name](majority) if name.startswith("majority") else globals()[name]()


def tables(figure: registry.Figure, majority=MAJORITY) -> dict[str, pd.DataFrame]:
    """The tables that a figure is drawn from, by name."""
    return {name: table(name, majority) for name in figure.tables}


def figures(majority=MAJORITY) -> dict[str, registry.Figure]:
    settings = {
        "majority": majority,
        "language_model": MODELS,
        "random_keys": RANDOM_KEYS,
        "pretrained": PRETRAINED,
    }
    return registry.figures(settings)


def draw(name: str, majority=MAJORITY, **changed: pd.DataFrame):
    """The figure called `name` from the world's tables, some of them replaced."""
    figure = figures(majority)[name]
    return registry.draw(figure, tables(figure, majority) | changed)


# What a reader sees


def legends(figure) -> list[Legend]:
    return figure.findobj(Legend)


def handles(figure) -> dict:
    """The entries of all legends of a figure by their texts."""
    return {
        text.get_text(): handle
        for legend in legends(figure)
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }


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
    if isinstance(handle, Patch):
        return [axes.patch] if axes.patch.get_hatch() == handle.get_hatch() else []
    found = [line for line in axes.lines if len(line.get_xdata()) and _alike(_look(handle), _look(line))]
    colour = to_hex(handle.get_color())
    for item in [*axes.collections, *axes.patches] if not found else []:
        tones = [*np.atleast_2d(item.get_facecolor()), *np.atleast_2d(item.get_edgecolor())]
        if isinstance(item, Collection | Patch) and colour in {to_hex(tone) for tone in tones if len(tone)}:
            found.append(item)
    return found


def named(axes, label: str) -> list:
    """The artists of axes that look like the legend's entry that begins with `label`, the shortest if several do."""
    entries = handles(axes.figure)
    return like(axes, entries[min((text for text in entries if text.startswith(label)), key=len)])


def curve(axes, label: str) -> Line2D:
    """The one line of more than one point that looks like the entry that begins with `label`."""
    (line,) = [line for line in named(axes, label) if len(line.get_xdata()) > 1]
    return line
