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

from layernorm_roles import store
from layernorm_roles.plan import Plan
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale
from layernorm_roles.statements.samples import Samples, trained_runs

KEYS = 128
"""Keys of a random head, and as many queries."""
MEANS = {"normal": 0.0, "normal_mean_1": 1.0}
"""The sources of random queries and keys, and the mean of their components; the notes say "around 1"."""


class QueriesAndKeys(NamedTuple):
    """Queries and keys of one attention head in one context."""

    queries: Float[np.ndarray, "n_queries d_k"]
    keys: Float[np.ndarray, "n_keys d_k"]
    columns: Mapping[str, Any]
    """columns `source`, `variant`, `seed`, `layer`, `head` of the table"""
    causal: bool = False
    """query i sees the keys 0..i only; queries and keys are then of the same tokens"""


def write(plan: Plan, vectors: Iterable[str | Path], samples: Iterable[str | Path], out: str | Path) -> None:
    """Write the table score_scale to `out`: random heads, and those of trained models of both kinds.

    `vectors` are files of the table majority_vectors, of which the runs in the plan's `majority` are taken, and
    `samples` are files of trained language models. The plan also has `settings` and the `seeds` of the random heads,
    and names the jobs that wrote the files. Raises ValueError if a file is missing, damaged or of another plan.
    """
    settings, jobs = ScoreScale.model_validate(plan["settings"]), map(plan.of, plan["made_by"])
    heads = chain(
        random_heads(settings.d_k, plan["seeds"]),
        *(
            majority_heads(store.read(path, "majority_vectors", job), plan["majority"])
            for path, job in zip(vectors, jobs, strict=False)
        ),
        language_model_heads(zip(samples, jobs, strict=True)),
    )
    store.write(measure(heads), "score_scale", out, provenance(plan, "cpu", Stream.SCORE_SCALE))


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


def random_heads(widths: Sequence[int], seeds: Sequence[int]) -> Iterator[QueriesAndKeys]:
    """Normal queries and keys of variance 1, with each of MEANS, for every d_k in `widths`."""
    for (source, mean), d_k, seed in product(MEANS.items(), widths, seeds):
        queries, keys = mean + generator(Stream.SCORE_SCALE, seed, d_k).standard_normal((2, KEYS, d_k))
        columns = {"source": source, "variant": None, "seed": seed, "layer": 1, "head": 0}
        yield QueriesAndKeys(queries, keys, columns)


def majority_heads(vectors: pd.DataFrame, runs: Iterable[Mapping[str, Any]]) -> Iterator[QueriesAndKeys]:
    """The attention heads, after training, of those `runs` that have rows in table majority_vectors.

    The queries in the table are divided by sqrt(d); here they are not, as in the other sources.
    """
    named = ["experiment", "variant", "seed", "d_model", "base_learning_rate"]
    wanted = {tuple(run[column] for column in named) for run in runs}
    for run, rows in vectors[vectors.checkpoint == "final"].groupby(named):
        if run in wanted:
            kinds = {kind: np.stack(part.sort_values("token").vector) for kind, part in rows.groupby("kind")}
            _, variant, seed, d_model, _ = run
            columns = {"source": "majority", "variant": variant, "seed": seed, "layer": 1, "head": 0}
            yield QueriesAndKeys(kinds["query"] * np.sqrt(d_model), kinds["key"], columns)


def language_model_heads(samples: Samples) -> Iterator[QueriesAndKeys]:
    """The heads of trained language models, by run, context, layer and head, from files of samples."""
    for run, tensors in trained_runs(samples):
        columns = {"source": "language_model", "variant": run["variant"], "seed": run["seed"]}
        places = product(range(run["contexts"]), range(1, run["layers"] + 1), range(run["heads"]))
        for context, layer, head in places:
            at = f"layer_{layer}.context_{context}"
            queries, keys = (tensors[f"{at}.{of}"][head].numpy() for of in ("queries", "keys"))
            yield QueriesAndKeys(queries, keys, columns | {"layer": layer, "head": head}, causal=True)


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
