"""Tables whose truth is known, because they are made from it."""

import numpy as np
import pandas as pd

from layernorm_roles import store

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
    return pd.DataFrame(rows, columns=store.SCHEMAS["random_keys"].names)


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
    frame = pd.DataFrame(rows, columns=store.SCHEMAS["key_selectability"].names[:-2])
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
    return pd.DataFrame(rows, columns=store.SCHEMAS["language_model_metrics"].names)


def geometry(difference: float = 1e-14, rank_lost: int = 1) -> pd.DataFrame:
    rows = []
    for n in (3, 8):
        about = ("layernorm", n, "float64", "inside", 1e-5, 1.0, 0.0)
        rows.append((*about, "difference_from_torch", difference))
        for norm, lost in (("layernorm", rank_lost), ("rmsnorm", 0)):
            shape = {
                "rank": n - lost,
                "axes_deviation": 1e-15,
                "axes_cosine": 1e-15,
                "centre_deviation": 1e-15,
            }
            rows += [
                (norm, n, "float64", None, 0.0, np.nan, 0.0, name, float(v)) for name, v in shape.items()
            ]
    return pd.DataFrame(rows, columns=store.SCHEMAS["geometry"].names)


def fusion(errors: dict[str, float], seeds: int = 5) -> pd.DataFrame:
    """Share of the variance that a single map of the heads misses, for each arrangement."""
    rows = [
        ("random", None, seed, 1, name, "heads", 32, 32, 128, 1000, 1000, e * (1 + 0.01 * seed), 32, 32, 9, 5)
        for name, e in errors.items()
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=store.SCHEMAS["fusion"].names)


def placement(gap: dict[float, float], seeds: int = 3) -> pd.DataFrame:
    """Post-norm's training loss minus pre-norm's at each learning rate, in deep networks; none in shallow ones."""
    rows = []
    for name in ("pre", "post"):
        for depth in (2, 24):
            for rate, difference in gap.items():
                for seed in range(seeds):
                    more = difference * (1 + 0.05 * seed) if name == "post" and depth == 24 else 0.001 * seed
                    rows += [
                        (name, depth, rate, 0, seed, step, 4.0 + more, 5.0, "trained") for step in range(20)
                    ]
    return pd.DataFrame(rows, columns=store.SCHEMAS["placement"].names)


def gradients(decades: dict[str, tuple[float, float]], seeds: int = 3) -> pd.DataFrame:
    """Logarithm of the first layer's gradient over the last layer's, at the first and the last step."""
    rows = []
    for name, ends in decades.items():
        for step, size in zip((0, 100), ends, strict=True):
            for seed in range(seeds):
                for layer, norm in ((1, 10 ** (size + 0.02 * seed)), (24, 1.0)):
                    rows.append((name, 24, 0.001, 0, seed, step, layer, norm))
    return pd.DataFrame(rows, columns=store.SCHEMAS["placement_gradients"].names)


def batch_dependence(layernorm: float, exponent: float, seeds: int = 3) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for size in (1, 4, 16, 64):
            rows.append(("layernorm", "others", size, 0.0, seed, layernorm))
            rows.append(("batchnorm", "others", size, 0.0, seed, 0.5 * size**exponent * (1 + 0.01 * seed)))
    return pd.DataFrame(rows, columns=store.SCHEMAS["batch_dependence"].names)


def score_scale(exponent: float, spread: float = 0.001, seeds: int = 5) -> pd.DataFrame:
    rows = []
    for seed in range(seeds):
        for d_k in (4, 16, 64, 256):
            for divided in (False, True):
                power = (exponent - 0.5 * divided) + spread * noise(3, seed).standard_normal()
                std = d_k**power
                rows.append(("normal", None, seed, 1, 0, d_k, 128.0, divided, 0.0, std, 1.0, 0.5, 0.5))
    return pd.DataFrame(rows, columns=store.SCHEMAS["score_scale"].names)


def worked_numbers(*verdicts: str) -> pd.DataFrame:
    rows = [("softmax", line, "weight", "0.25", 0.25, None, 0.005, v) for line, v in enumerate(verdicts)]
    return pd.DataFrame(rows, columns=store.SCHEMAS["worked_numbers"].names)
