"""Attention scores and the division by sqrt(d_k): their spread, the entropy of attention, what gradient is left.

For independent components of mean 0 and variance 1 the score q.k has variance d_k, so its standard deviation is
sqrt(d_k) and after the division 1. Whether trained queries and keys are like that is measured, not assumed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import entr, softmax

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale


class QueriesAndKeys(NamedTuple):
    """Queries and keys of one attention head in one context."""

    queries: Float[np.ndarray, "n_queries d_k"]
    keys: Float[np.ndarray, "n_keys d_k"]
    columns: Mapping[str, Any]
    """columns `source`, `variant`, `seed`, `layer`, `head` of the table"""
    causal: bool = False
    """query i sees the keys 0..i only; queries and keys are then of the same tokens"""


def statistics(head: QueriesAndKeys, divided: bool) -> dict[str, float]:
    """Columns `score_mean`, `score_std`, `entropy`, `entropy_share`, `gradient` of one head, means over its queries.

    `gradient` is the trace of the softmax's Jacobian diag(p) - pp', 1 - sum p^2: at most 1 - 1/n, and 0 where one key
    takes all the attention and no gradient passes. `entropy` in nats; `entropy_share` is relative to ln(keys seen).
    """
    scores = head.queries @ head.keys.T
    if divided:
        scores = scores / np.sqrt(head.keys.shape[1])
    seen = np.tril(np.ones(scores.shape, bool)) if head.causal else np.ones(scores.shape, bool)
    # With one key there is nothing to choose, and the entropy's share is 0/0.
    several = seen.sum(axis=1) > 1
    scores, seen = scores[several], seen[several]
    weights = softmax(np.where(seen, scores, -np.inf), axis=1)
    entropy = entr(weights).sum(axis=1)
    return {
        "score_mean": float(scores[seen].mean()),
        "score_std": float(scores[seen].std()),
        "entropy": float(entropy.mean()),
        "entropy_share": float((entropy / np.log(seen.sum(axis=1))).mean()),
        "gradient": float((1 - (weights**2).sum(axis=1)).mean()),
    }


def random_heads(settings: ScoreScale, seeds: Sequence[int]) -> Iterable[QueriesAndKeys]:
    """Normal queries and keys of variance 1: with components of mean 0, and of mean 1 (the notes' "around 1")."""
    n = settings.keys
    for source, mean in (("normal", 0.0), ("normal_mean_1", 1.0)):
        for d_k in settings.d_k:
            for seed in seeds:
                rng = generator(Stream.SCORE_SCALE, seed, d_k)
                queries, keys = mean + rng.standard_normal((2, n, d_k))
                columns = {"source": source, "variant": None, "seed": seed, "layer": 1, "head": 0}
                yield QueriesAndKeys(queries, keys, columns)


def measure(heads: Iterable[QueriesAndKeys]) -> pd.DataFrame:
    """Table `score_scale`: every head with and without the division, means over its contexts."""
    rows = []
    for head in heads:
        n_keys, d_k = head.keys.shape
        for divided in (False, True):
            sizes = {"d_k": d_k, "n_keys": n_keys, "divided": divided}
            rows.append({**head.columns, **sizes, **statistics(head, divided)})
    keys = ["source", "variant", "seed", "layer", "head", "d_k", "divided"]
    return pd.DataFrame(rows).groupby(keys, as_index=False, dropna=False, sort=False).mean()
