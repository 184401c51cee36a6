"""Tables whose truth is known, because they are made from it."""

from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa

from layernorm_roles.heads import ceilings as heads
from layernorm_roles.schemas import SCHEMAS


def noise(*key: int) -> np.random.Generator:
    return np.random.default_rng(key)


def table(name: str, rows) -> pd.DataFrame:
    """The rows as a table with the columns of its schema."""
    return pd.DataFrame(rows, columns=SCHEMAS[name].names)


def combinations(**values) -> pd.DataFrame:
    """A row for each combination of the given values of columns."""
    axes = [value if isinstance(value, tuple | range) else (value,) for value in values.values()]
    return pd.DataFrame(product(*axes), columns=[*values])


def crossed(table, rng, **values) -> pd.DataFrame:
    """`combinations` as a table, with random numbers in its other columns: from 0.1 to 0.9, or whole ones."""
    frame = combinations(**values)
    for field in SCHEMAS[table]:
        if field.name not in frame and field.type == pa.string():
            frame[field.name] = "x"
        elif field.name not in frame:
            floating, n = pa.types.is_floating(field.type), len(frame)
            frame[field.name] = rng.uniform(0.1, 0.9, n) if floating else rng.integers(1, 900, n)
    return frame[SCHEMAS[table].names]


# The majority task


def metrics(
    ratios=None,
    angles=None,
    accuracies=None,
    scores=None,
    floors=None,
    at_first=None,
    experiment="d8",
    seeds=10,
    last=14_000,
    spread=0.03,
    d_model=8,
    rate=0.001,
) -> pd.DataFrame:
    """A run of each variant and seed: 1,200 times its ratio steps to a test loss of 0.5, with a relative spread.

    Each argument that has no default number is by variant; without `ratios` all are equally fast. `angles` and
    `accuracies`, a share, are those of every step but the first, whose angles are `at_first`. `floors`: loss that is
    never left behind, by variant or by variant and seed. `scores`: standard deviation of the attention scores before
    and after training, between which it changes geometrically with the step; attention_share follows from it.
    """
    frames, steps = [], np.arange(0, last + 1, 100)
    ratios = ratios or dict.fromkeys(angles or accuracies or scores, 1.0)
    angles, accuracies, scores, floors, at_first = (
        each or {} for each in (angles, accuracies, scores, floors, at_first)
    )
    for (number, variant), seed in product(enumerate(ratios), range(seeds)):
        normal = noise(number, seed).standard_normal
        to_half = 1200 * ratios[variant] * np.exp(spread * normal())
        floor = floors.get((variant, seed), floors.get(variant, 0.0))
        loss = np.maximum(3 * np.exp(-np.log(6) * steps / to_half), floor)
        angle = angles.get(variant, 70.0) + 20 * spread * normal()
        accuracy = accuracies.get(variant, 0.9) + 0.1 * spread * normal()
        first, end = scores.get(variant, (0.46, 0.02))
        score_std = first * (end / first) ** (steps / last) * np.exp(spread * normal())
        run = {"experiment": experiment, "variant": variant, "seed": seed, "d_model": d_model}
        run |= {"base_learning_rate": rate, "learning_rate": rate, "step": steps}
        run |= {"train_loss": loss, "test_loss": loss, "query_angle_std": 1.0, "score_std": score_std}
        run["attention_share"] = np.exp(-(score_std**2) / 2)
        run["test_accuracy"] = np.where(steps > 0, np.clip(accuracy, 0, 1), 0.05)
        run["query_angle_mean"] = np.where(steps > 0, np.clip(angle, 0, 90), at_first.get(variant, 72.6))
        frames.append(pd.DataFrame(run))
    return pd.concat(frames, ignore_index=True)


def vectors(
    flat, turned, dim=3, experiment="d3", seeds=10, classes=10, turned_at_first=None, offset=0.0
) -> pd.DataFrame:
    """Keys on the plane orthogonal to the ones vector or not; queries along it (a degree off or so) or anywhere.

    Untrained, queries are anywhere but where `turned_at_first` says otherwise. `offset` moves all keys along the ones
    vector, so that their plane does not contain the origin.
    """
    rows, ones = [], np.ones(dim) / np.sqrt(dim)
    places = product((("initial", turned_at_first or {}), ("final", turned)), enumerate(flat), range(seeds))
    for (checkpoint, along), (number, variant), seed in places:
        rng = noise(99, number, seed)
        keys, queries = rng.standard_normal((2, classes, dim))
        keys -= flat[variant] * np.outer(keys @ ones, ones)
        if along.get(variant):
            queries = 0.02 * queries + 3 * ones
        keys, queries = (
            length * each / np.linalg.norm(each, axis=1, keepdims=True)
            for length, each in ((np.sqrt(dim), keys), (3.0, queries))
        )
        run = (experiment, variant, seed, dim, 0.001, checkpoint)
        for kind, matrix in (("key", keys + offset * ones), ("query", queries)):
            rows += [(*run, token, kind, v) for token, v in enumerate(matrix)]
    return table("majority_vectors", rows)


# Keys and losses


def random_keys(shares, matrices=100) -> pd.DataFrame:
    """For each norm the share of matrices with an unselectable key, in d < 13 and from 13 on."""
    rows = []
    for norm, n, d in product(shares, (10, 60), (3, 8, 13, 15)):
        share = shares[norm][d >= 13]
        mean = None if norm != "none" else share
        rows.append((norm, n, d, matrices, share, share, 0.5 * share, mean, 0, 1e-3, 1e-12))
    return table("random_keys", rows)


def of_layer(share, layer: int) -> float:
    """The share of a layer, of one share for all or one for each."""
    return share[layer - 1] if isinstance(share, tuple) else share


def keys(shares, model="gpt", texts="long", seeds=3, undecided=None, dimensions=(8, 2)) -> pd.DataFrame:
    """Unselectable keys for each (variant, checkpoint, site): a share of all four layers or one a layer.

    The shares differ a little between seeds. `undecided`: shares of undecided keys; none else. `dimensions`: of a key
    at the attention input and in a head.
    """
    rows = []
    for place, seed, context, layer in product(shares, range(seeds), range(4), (1, 2, 3, 4)):
        variant, checkpoint, site = place
        in_head = site.startswith("head")
        parts = of_layer(shares[place], layer), (undecided or {}).get(place, 0)
        counts = [round(1000 * part * (1 + 0.02 * seed)) for part in parts]
        for head in (0, 1) if in_head else (None,):
            key = (model, variant, seed, checkpoint, texts, context, layer, site, head, False, 1000)
            rows.append((*key, dimensions[in_head], *counts, 1e-3, 1e-12))
    return table("key_selectability", rows).astype({"head": "Int64"})


def losses(
    gap,
    seeds=3,
    spread=0.001,
    model="gpt",
    worth=0.5,
    unigram=9.0,
    more=None,
    untrained_gap=0.0,
    rate=0.01,
    own=0.3,
) -> pd.DataFrame:
    """Language models whose loss without scaling is higher by `gap`, and without attention by `worth`.

    The differences vary with the seed by `spread`, the losses themselves, of about 6 nats, by `own`. `more`: other
    variants, each with its loss minus LayerNorm's.
    """
    above = {"layernorm": 0.0, "projection": gap, "no_attention": worth, "layernorm_shrunk": 0.0}
    rows = []
    for seed, (number, (variant, higher)) in product(range(seeds), enumerate((above | (more or {})).items())):
        apart = noise(8, number, seed, round(1e5 * rate), 1000).standard_normal()
        end = 6.0 + own * noise(7, seed).standard_normal() + higher + (number > 0) * spread * apart
        for step, loss in ((0, 9.0 + untrained_gap * (variant == "projection")), (1000, end)):
            rows.append(
                (model, variant, seed, step, step * 100, loss, loss, unigram, 0.0, rate, 1000, 1.0, 1.0)
            )
    return table("language_model_metrics", rows)


# The statements of other documents


def geometry(
    difference=1e-14,
    rank_lost=1,
    rms_rank_lost=0,
    off=None,
    rms_off=None,
    near=None,
    away=None,
    close=1e-5,
) -> pd.DataFrame:
    """LayerNorm and RMSNorm in 4 and 16 dimensions; other radii with a smaller eps, other differences with eps outside.

    `near` and `away`: the radius over its root for inputs whose root mean square is `close` and 1, by place of eps.
    `off` and `rms_off`: deviations of the shape, other than none. RMSNorm's may have its centre anywhere.
    """
    rows, exact = [], {"inside": 1.0, "outside": 1.0}
    for n in (4, 16):
        for place, factor in (("inside", 1.0), ("outside", 1e8)):
            rows.append(("layernorm", n, place, 1e-5, 1.0, "difference_from_torch", difference * factor))
        for (size, radii), place in product(((close, near or {}), (1.0, away or {})), exact):
            for eps, mean in ((1e-5, (exact | radii)[place]), (1e-12, 3.0)):
                rows.append(("layernorm", n, place, eps, size * np.sqrt(n), "radius_mean", mean))
        shapes = (("layernorm", rank_lost, 0, off), ("rmsnorm", rms_rank_lost, 9, rms_off))
        for norm, lost, centre, more in shapes:
            shape = {"rank": n - lost, "axes_deviation": 1e-15, "axes_cosine": 0, "centre_deviation": centre}
            shape |= more or {}
            rows += [(norm, n, None, 0.0, np.nan, name, float(v)) for name, v in shape.items()]
    return table("geometry", rows)


def fusion(errors, seeds=5, narrow=0.5) -> pd.DataFrame:
    """Share of the variance that a single map of the heads misses, for each arrangement, where d is 32.

    Where d is 8 it is `narrow` times as much, and in trained models, which do not count, another.
    """
    rows = []
    for name, seed in product(errors, range(seeds)):
        error = errors[name] * (1 + 0.01 * seed)
        cells = (("random", 32, error), ("random", 8, narrow * error), ("language_model", 64, 0.7))
        rows += [(source, seed, 1, name, d, missed) for source, d, missed in cells]
    return table("fusion", rows)


def placement(gap, seeds=3, lost=()) -> pd.DataFrame:
    """Post-norm's training loss minus pre-norm's at each learning rate, in deep networks; none in shallow ones.

    `lost`: pairs of placement and seed of deep networks that diverge. All of a depth between them do.
    """
    rows = []
    for name, depth, rate, seed, step in product(("pre", "post"), (2, 12, 24), gap, range(seeds), range(20)):
        more = gap[rate] * (1 + 0.05 * seed) if name == "post" and depth == 24 else 0.001 * seed
        diverged = depth == 12 or ((name, seed) in lost and depth == 24)
        rows.append((name, depth, rate, seed, step, np.inf if diverged and step > 10 else 4.0 + more))
    return table("placement", rows)


def untrained_gradients(decades, seeds=3) -> pd.DataFrame:
    """By how many decades the first layer's gradient changes from 2 to 16 layers, with residuals and without."""
    rows, depths = [], ((2, 0.0), (8, 0.3), (16, 1.0))
    for name, i, seed, (depth, share) in product(decades, (0, 1), range(seeds), depths):
        rows.append((name, not i, depth, seed, 10 ** (share * (decades[name][i] + 0.01 * seed))))
    return table("untrained_gradients", rows)


def batch_dependence(layernorm, exponent, padding=0.5, seeds=3, spread=0.01) -> pd.DataFrame:
    """Changes of a token's output: BatchNorm's as a power of the batch size, and that by padding; a single one of
    LayerNorm's.

    Of a third of the padding BatchNorm's changes by a third as much.
    """
    rows = []
    for seed, size in product(range(seeds), (1, 4, 16, 64)):
        power = exponent + spread * noise(4, seed).standard_normal()
        rows += [
            ("layernorm", "others", size, 0.0, seed, layernorm * (size == 4 and seed == 1)),
            ("layernorm", "padding", size, 0.75, seed, 0.0),
            ("batchnorm", "others", size, 0.0, seed, 0.5 * size**power),
            ("batchnorm", "padding", size, 0.25, seed, padding / 3),
            ("batchnorm", "padding", size, 0.75, seed, padding * (1 + 0.1 * seed)),
        ]
    return table("batch_dependence", rows)


def score_scale(
    spread=0.001, seeds=5, kept=(0.1, 0.9), gradient=(0.1, 0.9), grows=(1.0, 0.5)
) -> pd.DataFrame:
    """Scores of random queries and keys; short vectors say the opposite of the longest.

    `kept` and `gradient`: entropy share and trace of the Jacobian without the division and with it. `grows`:
    exponents of mean and standard deviation for vectors of mean 1.
    """
    rows = []
    for seed, d_k, divided in product(range(seeds), (4, 16, 64, 256), (False, True)):
        random = spread * noise(3, seed).standard_normal()
        std, level, wide = (d_k ** (power - 0.5 * divided + random) for power in (0.5, *grows))
        ends = [pair[divided if d_k > 4 else not divided] + 10 * random for pair in (kept, gradient)]
        rows.append(("normal", seed, d_k, divided, 0.0, std, *ends))
        rows.append(("normal_mean_1", seed, d_k, divided, level, wide, *ends))
    return table("score_scale", rows)


def position_probe(trained, untrained, spread=0.01, seeds=4, context_length=20) -> pd.DataFrame:
    """Shares of positions that a probe names before the last of three layers of pre-norm, with residuals and without.

    Before the earlier layers, in the shallower networks and in post-norm they are others, and one run diverged.
    """
    rows = []
    places = product(("pre", "post"), (2, 3), (0.001, 0.01), range(seeds), (0, 9), (True, False), (1, 2, 3))
    for kind, depth, rate, seed, step, residual, layer in places:
        share = (trained if step else untrained)[not residual] + 0.02 * (rate < 0.01)
        share += spread * noise(5, seed, step).standard_normal() * (1 if residual else -1)
        share = share if (kind, depth, layer) == ("pre", 3, 3) else 1 - share / 2
        share = np.nan if (rate, seed, step) == (0.01, 1, 9) else share
        if layer <= depth:
            rows.append((kind, depth, rate, seed, residual, context_length, step, layer, share))
    return table("position_probe", rows)


# Pretrained models

PRETRAINED_N = 200
"""Keys in a context of the artificial pretrained model, which has two layers of two heads."""


def pretrained_keys(shares, contexts=4, undecided=0.0, model="minilm") -> pd.DataFrame:
    """Unselectable keys for each (site, dimensions): one share or one a layer, more by context, less by head."""
    rows = []
    for place, context, layer, head in product(shares, range(contexts), (1, 2), (0, 1)):
        site, d = place
        parts = of_layer(shares[place], layer), undecided * (site == "head")
        counts = [round(PRETRAINED_N * part * (1 + 0.02 * context - 0.1 * head)) for part in parts]
        rows.append((model, context, layer, site, head, False, PRETRAINED_N, d, *counts, 1e-3, 1e-12))
    return table("pretrained_keys", rows).astype({"head": "Int64"})


def ceilings(pairs: pd.DataFrame) -> pd.DataFrame:
    """What the pairs of a key and a head of every run add up to, as the table of ceilings keeps them."""
    run, parts = ["model", "variant", "seed", "checkpoint"], []
    for names, part in pairs.groupby(run, sort=False, dropna=False):
        named = {name: None if pd.isna(value) else value for name, value in zip(run, names, strict=True)}
        parts.append(heads.summary(part).assign(**named))
    return pd.concat(parts, ignore_index=True)[SCHEMAS["attention_ceilings"].names].astype({"seed": "Int64"})


def random_pairs(rng, words=("a", "b"), **values) -> pd.DataFrame:
    """Bounds of the ceilings of thirty keys in two heads, a quarter of them wide apart, and what the text gives keys.

    `values` are those of the other columns. The tokens are `words` in turn, the last of them from context 2 on alone.
    """
    frame = combinations(head=(0, 1), position=range(30), **values).assign(n_keys=30)
    upper = 10 ** (-3 * rng.random(len(frame)))
    lower = upper * rng.choice([1.0, 0.999, 0.9, 0.3], len(frame))
    got = np.where(frame.normalised == "as used", upper * rng.random(len(frame)), np.nan)
    token = np.array(words)[(frame.position + frame.context) % (len(words) - (frame.context < 2))]
    return frame.assign(lower=lower, upper=upper, received_max=got, token=token)


def ceiling_pairs(below, received=0.05, unknown=0.0, contexts=4, anywhere=0.0) -> pd.DataFrame:
    """Ceilings of keys "as used" and "without norm", the shares of which that are below a half are `below`.

    Both vary a little between contexts. `received`: share of the keys that get more than half from their text;
    `unknown`: share of the keys as used whose bounds enclose a half; `anywhere`: share below it for any query.
    """
    run = {"model": "minilm", "variant": None, "seed": None, "checkpoint": "pretrained", "dimensions": 32}
    place = {"context": range(contexts), "layer": (1, 2), "head": (0, 1), "position": range(PRETRAINED_N)}
    f = combinations(**run, **place, queries=("any", "norm"), normalised=tuple(below), n_keys=PRETRAINED_N)
    shares = [of_layer(below[name], layer) for name, layer in zip(f.normalised, f.layer, strict=True)]
    here = np.where(f.queries == "norm", shares, anywhere) * (1 + 0.04 * f.context)
    upper = np.where(f.position < (PRETRAINED_N * here).round(), 0.05 + 0.4 * f["head"], 0.9)
    used, there = f.normalised == "as used", 1 - received * (1 - 0.04 * f.context)
    got = np.where(f.position >= (PRETRAINED_N * there).round(), 0.8, 0.02 * f.layer)
    open_ = used & (f.position >= PRETRAINED_N * (1 - unknown))
    bounds = {"lower": np.where(open_, 0.3, upper * (1 - 1e-9)), "upper": upper}
    token = np.select([f.position < 20, f.position < 150], ["the", "of"], "norm")
    return f.assign(**bounds, received_max=np.where(used, got, np.nan), token=token)


def ones_share(ratio: float, random: float, model: str = "minilm") -> pd.DataFrame:
    """Shares along the ones vector, over that of a random direction, of three norms of the stream, around `ratio`.

    `random` is that of the network with random weights. A fourth norm is of the queries of a head, with another share.
    """
    rows = []
    for (seed, mean), context, norm in product(((None, ratio), (0, random)), range(4), range(1, 5)):
        d, here = (16, mean * (0.5 + norm / 4) * 1.02**context) if norm < 4 else (4, 3.9)
        checkpoint = "pretrained" if seed is None else "random"
        rows.append((model, None, seed, checkpoint, context, norm, f"norm_{norm}", d, here / d))
    return table("ones_share", rows)


def projection_shift(moved: float) -> pd.DataFrame:
    """How far attention moves without the projection, twice as far in the second layer, and a little by context.

    Along a random direction it moves 0.3.
    """
    rows = []
    for context, layer, head in product(range(4), (1, 2), (0, 1)):
        share = moved * layer / 1.5 * (1 + 0.02 * context + 0.1 * head - 0.05)
        rows.append(("minilm", context, layer, head, "left out", share, 0.3))
    return table("projection_shift", rows)


def gaussian_law() -> pd.DataFrame:
    """Thresholds that grow by half from one dimension to the next, and end at a million keys."""
    rows, shares = [], ((0.01, 1), (0.1, 4), (0.5, 16))
    for d, (share, factor), causal in product((2, 5, 8, 32, 64), shares, (False, True)):
        n = round(2 * factor * (1 + causal) * 1.3**d)
        rows.append((d, share, causal, n if n <= 1e6 else np.nan))
    return table("gaussian_law", rows).astype({"n": float})
