"""Small tables in which every number differs, so that a figure that swaps columns, variants or signs is noticed."""

from itertools import count, product

import numpy as np
import pandas as pd

from layernorm_roles.evidence.figures import registry

OWN = "tanh"
"""A variant that is not built in."""

RELEASED = {"sampling": "depth_first", "split": "rows"}
UNIFORM = {"sampling": "uniform", "split": "partitions"}
D8 = {"d_model": 8, "sequence_length": 50, "classes": 20, "steps": 6000, **RELEASED}
D3 = {"d_model": 3, "sequence_length": 30, "classes": 10, "steps": 60, **RELEASED}
SEEDS = {"layernorm": 6, "scale_released": 5, "scale": 2, "projection": 1, OWN: 2}

MAJORITY = {
    "d8": {**D8, "seeds": SEEDS},
    "d3": {**D3, "seeds": SEEDS},
    "d8_uniform": {**D8, **UNIFORM, "steps": 4000, "seeds": {"scale": 3, "layernorm": 2, "none": 0}},
    "mine": {**D8, **UNIFORM, "d_model": 5, "steps": 50, "seeds": {OWN: 1}},
}
MODELS = {
    "gpt": {"d_model": 8, "heads": 4, "seeds": {"layernorm": 3, "projection": 3, "layernorm_qk": 1, OWN: 2}},
    "bert": {"d_model": 8, "heads": 4, "seeds": {"none": 2, "layernorm": 2}},
}
RANDOM_KEYS = {"norms": ["none", "layernorm", "projection", OWN]}


def runs(seeds: dict[str, int]) -> list[tuple[str, int]]:
    return [(variant, seed) for variant, number in seeds.items() for seed in range(number)]


def majority_metrics(majority=MAJORITY) -> pd.DataFrame:
    """Losses fall and accuracies rise around a level that every run has for itself."""
    rng, rows = np.random.default_rng(1), []
    for experiment, settings in majority.items():
        for variant, seed in runs(settings["seeds"]):
            level = rng.uniform(0.3, 0.9, 4)
            for step in np.linspace(0, settings["steps"], 5).astype(int):
                values = level * rng.uniform(0.9, 1.1, 4)
                angle, spread = 80 * values[3], rng.uniform(1, 9)
                rows.append((experiment, variant, seed, step, *values[:3], angle, spread, 0.001))
    columns = ["train_loss", "test_loss", "test_accuracy", "query_angle_mean", "query_angle_std"]
    names = ["experiment", "variant", "seed", "step", *columns, "learning_rate"]
    return pd.DataFrame(rows, columns=names)


def majority_vectors(majority=MAJORITY) -> pd.DataFrame:
    """Keys of length 0.5 to 1.5 and queries of half of it, of four classes in every run."""
    rng, rows = np.random.default_rng(2), []
    for experiment, settings in majority.items():
        for variant, seed in runs(settings["seeds"]):
            for kind, length in (("key", 1.0), ("query", 0.5)):
                for token in range(4):
                    vector = rng.standard_normal(settings["d_model"])
                    vector *= length * rng.uniform(0.5, 1.5) / np.linalg.norm(vector)
                    rows.append((experiment, variant, seed, token, kind, vector))
    return pd.DataFrame(rows, columns=["experiment", "variant", "seed", "token", "kind", "vector"])


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


def language_model_metrics(seeds=MODELS["gpt"]["seeds"], stream: int = 5) -> pd.DataFrame:
    """Untrained models at loss 9, then losses between 6 and 8."""
    rng, rows = np.random.default_rng(stream), []
    for variant, seed in runs(seeds):
        for step in (0, 100, 200, 300, 400):
            losses = (9.0, 9.0) if step == 0 else rng.uniform(6, 8, 2)
            rows.append((variant, seed, step, 10 * step, *losses, 0.01, 1.0))
    columns = ["tokens", "train_loss", "valid_loss", "learning_rate", "seconds"]
    return pd.DataFrame(rows, columns=["variant", "seed", "step", *columns])


def key_selectability(seeds=MODELS["gpt"]["seeds"]) -> pd.DataFrame:
    rng, rows = np.random.default_rng(6), []
    for model, texts in (("gpt", "long"), ("gpt", "sentences"), ("bert", "sentences")):
        for (variant, seed), checkpoint, context, layer in product(
            runs(seeds), ("initial", "final"), range(2), (1, 2)
        ):
            sites = {"before_norm": [None], "after_norm": [None], "head": [0, 1]}
            if variant == "layernorm_qk":
                sites["head_exact"] = [0, 1]
            for site, heads in sites.items():
                for head in heads:
                    n = 900 + 10 * context
                    hit = int(rng.integers(0, n))
                    rows.append(
                        (model, variant, seed, checkpoint, texts, context, layer, site, head, n, hit, 0)
                    )
    columns = ["model", "variant", "seed", "checkpoint", "texts", "context", "layer", "site", "head"]
    frame = pd.DataFrame(rows, columns=[*columns, "n_keys", "n_unselectable", "n_borderline"])
    return frame.assign(min_margin=0.1, max_residual=0.1)


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


def worked_numbers() -> pd.DataFrame:
    verdicts = {
        "beta": ["right", "right", "follows"],
        "gamma": ["not right", "right"],
        "alpha": ["not right"] * 2,
    }
    line = {"gamma": count(10), "beta": count(20), "alpha": count(30)}
    rows = []
    for example, names in verdicts.items():
        for number, verdict in enumerate(names):
            stated = f"{1.5 * len(rows) - 2:.1f}"
            name = f"query, key and value [{number}]"
            rows.append((example, next(line[example]), name, stated, 0.9 * len(rows), None, 0.05, verdict))
    columns = ["example", "line", "quantity", "stated", "recomputed", "from_stated", "tolerance", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def durations() -> pd.DataFrame:
    rows = [("train", 9, 60.0, 500.0), ("keys", 1, 5.0, 300.0), ("page", 1, 0.1, np.nan)]
    return pd.DataFrame(rows, columns=["rule", "jobs", "wall_minutes", "largest_memory_mb"])


def tables(majority=MAJORITY) -> dict[str, pd.DataFrame]:
    """Every table that a figure needs, by name."""
    made = {name: globals()[name]() for name in TABLES if not name.startswith("majority")}
    bert = language_model_metrics(MODELS["bert"]["seeds"], stream=14)
    return made | {
        "bert_metrics": bert,
        "majority_metrics": majority_metrics(majority),
        "majority_vectors": majority_vectors(majority),
    }


def figures(majority=MAJORITY) -> dict[str, registry.Figure]:
    return registry.figures(majority, MODELS, RANDOM_KEYS) | {"durations": registry.DURATIONS}


TABLES = sorted({table for figure in figures().values() for table in figure.tables} - {"bert_metrics"})


def draw(name: str, majority=MAJORITY, **changed: pd.DataFrame):
    """The figure called `name` from the world's tables, some of them replaced."""
    return registry.draw(figures(majority)[name], tables(majority) | changed)
