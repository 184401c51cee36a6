"""Attention scores and the division by sqrt(d_k): their spread, the entropy of attention, what gradient is left.

For independent components of mean 0 and variance 1 the score q.k has variance d_k, so its standard deviation is
sqrt(d_k) and after the division 1. Whether trained queries and keys are like that is measured, not assumed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import entr, softmax

from layernorm_roles import checkpoint, store
from layernorm_roles.provenance import provenance
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


def write(
    settings: ScoreScale,
    seeds: Sequence[int],
    vectors: str | Path,
    experiment: str,
    activations: Iterable[tuple[str | Path, Mapping[str, Any]]],
    out: str | Path,
) -> None:
    """Write the table score_scale to `out`: random heads of `seeds`, and those of trained models of both kinds.

    `vectors` is the file of the table majority_vectors, of which the heads of `experiment` are taken. `activations` has
    a pair for each trained language model: its file of activations, and the identity of the run.
    """
    heads = chain(
        random_heads(settings, seeds),
        majority_heads(store.read(vectors, "majority_vectors"), experiment),
        *(language_model_heads(*file) for file in activations),
    )
    origin = provenance({**settings.model_dump(mode="json"), "seeds": list(seeds)}, "cpu", Stream.SCORE_SCALE)
    store.write(measure(heads), "score_scale", out, origin)


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
    means = {"normal": 0.0, "normal_mean_1": 1.0}
    for (source, mean), d_k, seed in product(means.items(), settings.d_k, seeds):
        rng = generator(Stream.SCORE_SCALE, seed, d_k)
        queries, keys = mean + rng.standard_normal((2, settings.keys, d_k))
        columns = {"source": source, "variant": None, "seed": seed, "layer": 1, "head": 0}
        yield QueriesAndKeys(queries, keys, columns)


def majority_heads(vectors: pd.DataFrame, experiment: str) -> Iterator[QueriesAndKeys]:
    """The attention head of every trained model of an experiment in table majority_vectors.

    Of an experiment with several d_model or learning rates only the largest d_model and the smallest rate are taken.
    The queries in the table are divided by sqrt(d); here they are not, as in the other sources.
    """
    final = vectors[(vectors.experiment == experiment) & (vectors.checkpoint == "final")]
    widest, slowest = final.d_model.max(), final.base_learning_rate.min()
    final = final[(final.d_model == widest) & (final.base_learning_rate == slowest)]
    for (variant, seed), run in final.groupby(["variant", "seed"]):
        kinds = {kind: np.stack(part.sort_values("token").vector) for kind, part in run.groupby("kind")}
        columns = {"source": "majority", "variant": variant, "seed": seed, "layer": 1, "head": 0}
        yield QueriesAndKeys(kinds["query"] * np.sqrt(widest), kinds["key"], columns)


def language_model_heads(
    path: str | Path, identity: Mapping[str, Any] | None = None
) -> Iterator[QueriesAndKeys]:
    """The heads of a trained language model, by context, layer and head, of a file by `language_model.activations`.

    Raises ValueError if the file is missing or damaged, or of another run than `identity`.
    """
    tensors, facts = checkpoint.load(path, identity)
    run = {"source": "language_model", "variant": facts["variant"], "seed": facts["seed"]}
    layers, heads = range(1, facts["layers"] + 1), range(facts["heads"])
    for context, layer, head in product(range(facts["contexts"]), layers, heads):
        of_context = f"layer_{layer}.context_{context}"
        queries, keys = (tensors[f"{of_context}.{of}"][head].numpy() for of in ("queries", "keys"))
        yield QueriesAndKeys(queries, keys, run | {"layer": layer, "head": head}, causal=True)


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
