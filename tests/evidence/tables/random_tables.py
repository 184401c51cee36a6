"""A reproduction in Parquet tables of random numbers: no two seeds, variants, layers, contexts or models are alike."""

from functools import partial

import numpy as np
import pandas as pd
import worlds

TEXTS = (" al", "b", "\ufffd", "w*", "|", " nan", "\n", "[x]", *(f"t{number}" for number in range(16)))
SITES = ("before_norm", "after_norm", "after_norm_exact", "head", "head_exact")
FOUR = ("layernorm", "scale", "layernorm_small", "scale_released")
_rng = np.random.default_rng(0)


def majority() -> pd.DataFrame:
    """Losses that fall at a pace of their own, some not as far as all thresholds; runs that diverged and that ended.

    At the largest rate there is no LayerNorm, and at one width a single run of a variant.
    """
    one = {"experiment": "d8", "variant": (*FOUR, "mine"), "d_model": 8, "base_learning_rate": 0.001}
    rates = {"experiment": "rates", "variant": FOUR[:3], "base_learning_rate": (0.001, 0.01, 0.1)}
    widths = {"experiment": "widths", "variant": (*FOUR[:2], "projected_v"), "d_model": (3, 16)}
    steps = {"step": (0, 1, 10, 100, 1000, 2000, 5000), "seed": (2, 3, 5, 7)}
    point = {"d_model": 8, "base_learning_rate": 0.01, **steps}
    frames = [worlds.crossed("majority_metrics", _rng, **point | each) for each in (one, rates, widths)]
    frame = pd.concat(frames, ignore_index=True)
    runs = frame.groupby(["experiment", "variant", "d_model", "base_learning_rate", "seed"]).ngroup()
    pace = _rng.uniform(0.1, 0.5, runs.max() + 1)[runs]
    frame["test_loss"] = np.exp(1 - pace * np.log1p(frame.step)) * _rng.uniform(0.9, 1.0, len(frame))
    fast = frame.seed.eq(2) & frame.experiment.eq("d8") & (frame.step > 10)
    frame.loc[fast, "test_loss"] = 0.1 * _rng.random(fast.sum())
    frame.loc[(runs == runs.max()) & (frame.step > 100), "test_loss"] = np.inf
    lost = (
        (frame.experiment == "rates") & (frame.seed == 3) & (frame.variant == "scale") & (frame.step > 1000)
    )
    lost |= (frame.variant == "projected_v") & (frame.d_model == 3) & (frame.seed > 2)
    lost |= (frame.variant == "layernorm") & (frame.base_learning_rate == 0.1)
    return frame[~lost].reset_index(drop=True)


def keys(table: str, **values) -> pd.DataFrame:
    """Counts of unselectable keys, of the heads among all keys and among those before each."""
    frame = worlds.crossed(table, _rng, head=(0, 1), causal=(False, True), n_keys=(1000,), **values)
    in_heads = frame.site.str.startswith("head")
    frame = frame[in_heads & (~frame.causal | (frame.site == "head")) | (frame["head"] == 0) & ~frame.causal]
    sizes = 1000 + 100 * frame.context * frame.model.str.len()
    return frame.assign(n_keys=sizes, n_unselectable=frame.n_unselectable.where(frame.layer > 0, 0))


def selectability() -> pd.DataFrame:
    common = {"checkpoint": ("final", "initial"), "layer": (1, 2), "context": range(3), "site": SITES}
    gpt = {"model": "gpt", "texts": ("long", "sentences"), "variant": ("projection", "layernorm")}
    of_bytes = {"model": "gpt_bytes", "texts": "long", "variant": ("layernorm", "none")}
    bert = {"model": "bert", "texts": "sentences", "variant": ("none", "layernorm")}
    parts = [
        keys("key_selectability", **common, **gpt, seed=(3, 5), dimensions=2),
        keys("key_selectability", **common, **of_bytes, seed=3, dimensions=8),
        keys("key_selectability", **common, **bert, seed=(1, 2, 4), dimensions=64),
    ]
    frame = pd.concat(parts, ignore_index=True)
    none = (frame.site == "after_norm") & (frame.layer == 2) & (frame.model == "gpt_bytes")
    return frame.assign(n_unselectable=frame.n_unselectable.mask(none, 0))


def tokens() -> pd.DataFrame:
    runs = {"variant": ("projection", "layernorm"), "seed": (3, 5), "checkpoint": ("initial", "final")}
    frame = worlds.crossed(
        "sentence_tokens", _rng, model="gpt", **runs, layer=(1, 2), context=range(12), position=range(20)
    )
    text = np.resize([*TEXTS[:7] * 4, TEXTS[7]], (12, 20))  # the last one is too rare to be listed in Table 3
    verdicts = _rng.choice(["selectable", "unselectable", "borderline"], len(frame), p=[0.6, 0.3, 0.1])
    return frame.assign(token=text[frame.context, frame.position], verdict=verdicts)


def losses() -> pd.DataFrame:
    """Two models with a single rate and length, and one with several rates, at the largest of which a run diverges."""
    point = {"base_learning_rate": 0.01, "steps": 900, "step": (0, 500, 900)}
    variants = {"variant": ("projection", "layernorm", "no_attention")}
    gpt, alone = (
        variants | {"model": "gpt", "seed": (1, 2, 4)},
        {"model": "gpt_bytes", "variant": "layernorm"},
    )
    rates = variants | {"model": "rates", "seed": (1, 2, 3), "base_learning_rate": (0.01, 0.02, 0.04)}
    models = (gpt, alone | {"seed": 3}, rates)
    frame = pd.concat([worlds.crossed("language_model_metrics", _rng, **point | of) for of in models])
    frame = frame[(frame.variant != "projection") | (frame.seed != 2)].reset_index(drop=True)
    lost = (frame.base_learning_rate == 0.04) & (frame.seed == 1) & (frame.step > 500)
    return frame[~lost | (frame.variant == "no_attention")]


def tables() -> dict[str, pd.DataFrame]:
    """All tables that readable ones are made from, but for claims, and the pairs behind those of ceilings."""
    pairs = partial(worlds.random_pairs, _rng, TEXTS, layer=(1, 2))
    downloaded = {
        "variant": None,
        "seed": None,
        "checkpoint": "pretrained",
        "normalised": ("as used", "without norm"),
    }
    minilm = pairs(model="minilm", context=range(4), dimensions=32, queries=("any", "norm"), **downloaded)
    gpt2 = pairs(model="gpt2", context=0, dimensions=64, queries="any", **downloaded)
    pretrained = pd.concat([minilm, gpt2], ignore_index=True)
    cut = [("head", 8), ("head_cut", 2), ("head_cut", 4)]
    law = worlds.crossed(
        "gaussian_law", _rng, d=(2, 3, 5, 8, 32, 64, 128), share=(0.01, 0.1, 0.5), causal=(False, True)
    )
    number = (10 ** (10 * law.n)).round()
    return {
        "majority_metrics": majority(),
        "key_selectability": selectability(),
        "sentence_tokens": tokens(),
        "language_model_metrics": losses(),
        "attention_pairs": pretrained,
        "attention_ceilings": worlds.ceilings(pretrained),
        "token_ceilings": worlds.token_ceilings(minilm),
        "pretrained_keys": pd.concat(
            keys("pretrained_keys", model="minilm", layer=(1, 2), context=range(3), site=site, dimensions=d)
            for site, d in cut
        ),
        "gaussian_law": law.assign(n=number.mask(number > 10**8)),
    }  # fmt: skip
