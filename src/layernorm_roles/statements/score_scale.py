"""Attention scores and the division by sqrt(d_k): their spread, the entropy of attention, what gradient is left.

For independent components of mean 0 and variance 1 the score q.k has variance d_k, so its standard deviation is
sqrt(d_k) and after the division 1. With components around 1 the mean of the scores grows as d_k, which the softmax
does not see.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import entr, softmax

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale

KEYS = 128
"""Keys of a head, and as many queries."""
MEANS = {"normal": 0.0, "normal_mean_1": 1.0}
"""The sources of random queries and keys, and the mean of their components; the notes say "around 1"."""


def write(plan: Mapping[str, Any], out: str | Path) -> None:
    """Write the table score_scale to the file `out`; the plan has `settings` and the `seeds` of the draws."""
    frame = measure(ScoreScale.model_validate(plan["settings"]), plan["seeds"])
    store.write(frame, "score_scale", out, provenance(plan, "cpu", Stream.SCORE_SCALE))


def measure(settings: ScoreScale, seeds: Sequence[int]) -> pd.DataFrame:
    """Table `score_scale`: heads of normal queries and keys of variance 1, with and without the division."""
    rows = []
    for (source, mean), d_k, seed in product(MEANS.items(), settings.d_k, seeds):
        queries, keys = mean + generator(Stream.SCORE_SCALE, seed, d_k).standard_normal((2, KEYS, d_k))
        for divided in (False, True):
            named = {"source": source, "seed": seed, "d_k": d_k, "divided": divided}
            rows.append(named | statistics(queries, keys, divided))
    return pd.DataFrame(rows)


def statistics(
    queries: Float[np.ndarray, "n_queries d_k"], keys: Float[np.ndarray, "n_keys d_k"], divided: bool
) -> dict[str, float]:
    """Columns `score_mean`, `score_std`, `entropy_share` and `gradient` of one head, means over its queries.

    `gradient` is the trace of the softmax's Jacobian diag(p) - pp', 1 - sum p^2: at most 1 - 1/n, and 0 where one key
    takes all the attention and no gradient passes. `entropy_share` is the entropy relative to ln(n), of n keys.
    """
    scores = queries @ keys.T / (np.sqrt(keys.shape[1]) if divided else 1)
    weights = softmax(scores, axis=1)
    return {
        "score_mean": float(scores.mean()),
        "score_std": float(scores.std()),
        "entropy_share": float(entr(weights).sum(axis=1).mean() / np.log(len(keys))),
        "gradient": float((1 - (weights**2).sum(axis=1)).mean()),
    }
