"""Tables whose truth is known, because they are made from it."""

from itertools import product

import numpy as np
import pandas as pd

from layernorm_roles.schemas import SCHEMAS

VARIANTS = ("layernorm", "scale_released", "scale", "layernorm_small")


def noise(*key: int) -> np.random.Generator:
    return np.random.default_rng(key)


def metrics(
    ratios: dict[str, float],
    angles: dict[str, float] | None = None,
    accuracies: dict[str, float] | None = None,
    experiment: str = "d8",
    seeds: int = 10,
    last: int = 14_000,
    spread: float = 0.03,
) -> pd.DataFrame:
    """A run of each variant and seed: 1,200 times its ratio steps to a test loss of 0.5, with a relative spread."""
    steps = np.arange(0, last + 1, 100)
    frames = []
    for number, (variant, ratio) in enumerate(ratios.items()):
        for seed in range(seeds):
            rng = noise(number, seed)
            to_half = 1200 * ratio * np.exp(spread * rng.standard_normal())
            loss = 3 * np.exp(-np.log(6) * steps / to_half)
            angle = (angles or {}).get(variant, 70.0) + 20 * spread * rng.standard_normal()
            accuracy = (accuracies or {}).get(variant, 0.9) + 0.1 * spread * rng.standard_normal()
            frames.append(
                pd.DataFrame(
                    {
                        "experiment": experiment,
                        "variant": variant,
                        "seed": seed,
                        "step": steps,
                        "train_loss": loss,
                        "test_loss": loss,
                        "test_accuracy": np.clip(accuracy, 0, 1),
                        "query_angle_mean": np.clip(angle, 0, 90),
                        "query_angle_std": 1.0,
                        "learning_rate": 1e-3,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)


def vectors(
    flat: dict[str, bool],
    turned: dict[str, bool],
    dim: int = 3,
    experiment: str = "d3",
    seeds: int = 10,
    classes: int = 10,
    length: dict[str, float] | None = None,
) -> pd.DataFrame:
    """Keys on the plane orthogonal to the ones vector or not; queries along it (a degree off or so) or anywhere."""
    ones = np.ones(dim) / np.sqrt(dim)
    rows = []
    for number, variant in enumerate(flat):
        for seed in range(seeds):
            rng = noise(99, number, seed)
            keys = rng.standard_normal((classes, dim))
            keys -= flat[variant] * np.outer(keys @ ones, ones)
            keys *= np.sqrt(dim) / np.linalg.norm(keys, axis=1, keepdims=True)
            queries = rng.standard_normal((classes, dim))
            if turned[variant]:
                queries = 0.02 * queries + 3 * ones
            queries *= (length or {}).get(variant, 3.0) / np.linalg.norm(queries, axis=1, keepdims=True)
            for kind, matrix in (("key", keys), ("query", queries)):
                rows += [(experiment, variant, seed, token, kind, v) for token, v in enumerate(matrix)]
    return pd.DataFrame(rows, columns=["experiment", "variant", "seed", "token", "kind", "vector"])


def random_keys(shares: dict[str, tuple[float, float]], matrices: int = 100) -> pd.DataFrame:
    """For each norm the share of matrices with an unselectable key, in d < 13 and from 13 on."""
    rows = []
    for norm, (low, high) in shares.items():
        for n in (10, 60):
            for d in (3, 8, 13, 15):
                share = low if d < 13 else high
                mean = None if norm != "none" else share
                rows.append((norm, n, d, matrices, share, share, 0.5 * share, mean, 0, 1e-3, 1e-12))
    return pd.DataFrame(rows, columns=SCHEMAS["random_keys"].names)


def keys(
    shares: dict[tuple[str, str, str, str], float], model: str = "gpt", texts: str = "long", seeds: int = 3
) -> pd.DataFrame:
    """Unselectable keys for each (variant, checkpoint, site), all layers alike, a little different for each seed."""
    rows = []
    for (variant, checkpoint, site), share in shares.items():
        for seed in range(seeds):
            for context in range(4):
                for layer in (1, 2):
                    for head in (0, 1) if site.startswith("head") else (None,):
                        hit = round(1000 * share * (1 + 0.02 * seed))
                        rows.append(
                            (
                                model,
                                variant,
                                seed,
                                checkpoint,
                                texts,
                                context,
                                layer,
                                site,
                                head,
                                1000,
                                hit,
                                0,
                            )
                        )
    frame = pd.DataFrame(rows, columns=SCHEMAS["key_selectability"].names[:-2])
    return frame.assign(head=frame["head"].astype("Int64"), min_margin=1e-3, max_residual=1e-12)


def losses(gap: float, seeds: int = 3, spread: float = 0.001) -> pd.DataFrame:
    """Language models whose loss without scaling is higher by `gap`, a little different for each seed."""
    rows = []
    for seed in range(seeds):
        for variant in ("layernorm", "projection"):
            for step in (0, 1000):
                loss = 9.0 if step == 0 else 6.0 + 0.3 * noise(7, seed).standard_normal()
                if step and variant == "projection":
                    loss += gap + spread * noise(8, seed).standard_normal()
                rows.append((variant, seed, step, step * 100, loss, loss, 0.0, 1.0))
    return pd.DataFrame(rows, columns=SCHEMAS["language_model_metrics"].names)


def geometry(
    difference: float = 1e-14,
    rank_lost: int = 1,
    rms_rank_lost: int = 0,
    deviation: float = 1e-15,
    near: dict[str, float] | None = None,
    away: dict[str, float] | None = None,
) -> pd.DataFrame:
    """LayerNorm and RMSNorm in 4 and 16 dimensions.

    `near` and `away`: the radius over its root for inputs of a root mean square of 1e-5 and 1, for each place of eps.
    """
    rows = []
    for n in (4, 16):
        for dtype, factor in (("float64", 1.0), ("float32", 1e8)):
            inside = ("layernorm", n, dtype, "inside", 1e-5, 1.0, 0.0)
            rows.append((*inside, "difference_from_torch", difference * factor))
        for size, radii in ((1e-5, near or {}), (1.0, away or {})):
            for place, radius in ({"inside": 1.0, "outside": 1.0} | radii).items():
                key = ("layernorm", n, "float64", place, 1e-5, size * np.sqrt(n), 0.0)
                rows.append((*key, "radius_mean", radius))
        for norm, lost in (("layernorm", rank_lost), ("rmsnorm", rms_rank_lost)):
            shape = {
                "rank": n - lost,
                "axes_deviation": deviation,
                "axes_cosine": 0.0,
                "centre_deviation": 0.0,
            }
            rows += [
                (norm, n, "float64", None, 0.0, np.nan, 0.0, name, float(v)) for name, v in shape.items()
            ]
    return pd.DataFrame(rows, columns=SCHEMAS["geometry"].names)


def fusion(
    errors: dict[str, float],
    seeds: int = 5,
    widths: dict[int, float] | None = None,
    heads: tuple[float, ...] = (1,),
) -> pd.DataFrame:
    """Share of the variance that a single map of the heads misses, for each arrangement.

    `widths`: of the stream, each with a factor on the errors. `heads`: widths of the heads relative to the stream.
    """
    rows = []
    for (d, factor), share, name, seed in product((widths or {32: 1.0}).items(), heads, errors, range(seeds)):
        error = errors[name] * factor * (1 + 0.01 * seed)
        sizes = (d, int(d * share), 4 * d, 1000, 1000)
        rows.append(("random", None, seed, 1, name, "heads", *sizes, error, d, d, 9, 5))
    return pd.DataFrame(rows, columns=SCHEMAS["fusion"].names)


def placement(
    gap: dict[float, float],
    seeds: int = 3,
    gains: dict[int, float] | None = None,
    stuck: tuple[int, ...] = (),
) -> pd.DataFrame:
    """Post-norm's training loss minus pre-norm's at each learning rate, in deep networks; none in shallow ones.

    `gains`: by how much a warm-up lowers post-norm's loss at each depth; without, there is no warm-up. `stuck`:
    depths at which no post-norm run trains.
    """
    rows = []
    for name, depth, rate, seed in product(("pre", "post"), (2, 24), gap, range(seeds)):
        more = gap[rate] * (1 + 0.05 * seed) if name == "post" and depth == 24 else 0.001 * seed
        status = "stuck" if name == "post" and depth in stuck else "trained"
        for warmup in (0, 50) if gains else (0,):
            less = gains[depth] * (1 + 0.01 * seed) if warmup and name == "post" else 0.0
            key = (name, depth, rate, warmup, seed)
            rows += [(*key, step, 4.0 + more - less, 5.0, status) for step in range(20)]
    return pd.DataFrame(rows, columns=SCHEMAS["placement"].names)


def gradients(decades: dict[str, tuple[float, float]], seeds: int = 3, spread: float = 0.02) -> pd.DataFrame:
    """Logarithm of the first layer's gradient over the last layer's, at the first and the last step."""
    rows = []
    for name, ends in decades.items():
        for step, size in zip((0, 100), ends, strict=True):
            for seed in range(seeds):
                for layer, norm in ((1, 10 ** (size + spread * seed)), (24, 1.0)):
                    rows.append((name, 24, 0.001, 0, seed, step, layer, norm))
    return pd.DataFrame(rows, columns=SCHEMAS["placement_gradients"].names)


def batch_dependence(
    layernorm: float, exponent: float, padding: float = 0.5, seeds: int = 3, spread: float = 0.01
) -> pd.DataFrame:
    """Changes of a token's output: LayerNorm's, BatchNorm's as a power of the batch size, and that by padding."""
    rows = []
    for seed, size in product(range(seeds), (1, 4, 16, 64)):
        power = exponent + spread * noise(4, seed).standard_normal()
        rows += [
            ("layernorm", "others", size, 0.0, seed, layernorm),
            ("layernorm", "padding", size, 0.75, seed, layernorm),
            ("batchnorm", "others", size, 0.0, seed, 0.5 * size**power),
            ("batchnorm", "padding", size, 0.75, seed, padding * (1 + 0.1 * seed)),
        ]
    return pd.DataFrame(rows, columns=SCHEMAS["batch_dependence"].names)


def score_scale(
    exponent: float,
    spread: float = 0.001,
    seeds: int = 5,
    kept: tuple[float, float] = (0.1, 0.9),
    gradient: tuple[float, float] = (0.1, 0.9),
    grows: tuple[float, float] = (1.0, 0.5),
) -> pd.DataFrame:
    """Scores of random queries and keys; the standard deviation of those of mean 0 grows with `exponent`.

    `kept` and `gradient`: entropy share and trace of the Jacobian without the division and with it. `grows`:
    exponents of mean and standard deviation for vectors of mean 1.
    """
    rows = []
    for seed, d_k, divided in product(range(seeds), (4, 16, 64, 256), (False, True)):
        random = spread * noise(3, seed).standard_normal()
        half = 0.5 * divided
        std, level, wide = (d_k ** (power - half + random) for power in (exponent, *grows))
        ends = [pair[divided] + 10 * random for pair in (kept, gradient)]
        rows.append(("normal", None, seed, 1, 0, d_k, 128.0, divided, 0.0, std, 1.0, *ends))
        rows.append(("normal_mean_1", None, seed, 1, 0, d_k, 128.0, divided, level, wide, 1.0, *ends))
    return pd.DataFrame(rows, columns=SCHEMAS["score_scale"].names)


def trained_scores(source: str, *sizes: float, seeds: int = 3) -> pd.DataFrame:
    """Divided scores of trained models: the standard deviation of each head, in every run."""
    rows = [
        (source, "layernorm", seed, 1, head, 8, 20.0, True, 0.0, size * (1 + 0.001 * seed), 1.0, 0.5, 0.5)
        for seed, (head, size) in product(range(seeds), enumerate(sizes))
    ]
    return pd.DataFrame(rows, columns=SCHEMAS["score_scale"].names)


def worked_numbers(*verdicts: str) -> pd.DataFrame:
    """Worked numbers with these verdicts: "right", "follows" or "not right"."""
    rows = [("softmax", line, "weight", "0.25", 0.25, None, 0.005, v) for line, v in enumerate(verdicts)]
    return pd.DataFrame(rows, columns=SCHEMAS["worked_numbers"].names)
