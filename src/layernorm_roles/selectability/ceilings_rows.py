"""The ceilings of the keys of a head as rows of a table, beside the attention that the keys receive."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from layernorm_roles.schemas import ANY, NORM
from layernorm_roles.selectability.ceilings import Ceilings, QueryEllipsoid, ceilings


def attention(
    queries: Float[np.ndarray, "*heads n d"],
    keys: Float[np.ndarray, "*heads n d"],
    visible: Bool[np.ndarray, "n n"],
    scaling: float | None = None,
) -> Float[np.ndarray, "*heads n n"]:
    """The weight that each query (row) gives each key (column), 0 where the key is not `visible`.

    Scores are queries @ keys.T times `scaling`, 1 / sqrt(d) unless given.
    """
    scaling = queries.shape[-1] ** -0.5 if scaling is None else scaling
    scores = np.where(visible, queries @ keys.swapaxes(-1, -2) * scaling, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


class Received(NamedTuple):
    """What the queries of a context give each key of one head, as shares of their attention, 0..1."""

    largest: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]


def received(weights: Float[np.ndarray, "n n"], visible: Bool[np.ndarray, "n n"]) -> Received:
    """The largest and the mean attention that keys get from the queries that may see them.

    `weights` has the attention that the query of a row gives the key of a column, 0 where it is not `visible`.
    """
    return Received(weights.max(axis=0), weights.sum(axis=0) / visible.sum(axis=0))


def verified(keys: Float[np.ndarray, "n d"], queries: QueryEllipsoid | None = None) -> Ceilings:
    """The ceilings of keys, after their bounds were computed again from the stored queries and proofs."""
    found = ceilings(keys, queries)
    found.verify(keys)
    return found


def rows(
    head: int, keys: Float[np.ndarray, "n d"], found: Ceilings, normalised: str, got: Received | None
) -> pd.DataFrame:
    """A row for each key of a head: columns of table attention_ceilings from `head` on, but for `token`.

    `got` is what the keys receive; None for keys that the head does not use.
    """
    n, d = keys.shape
    return pd.DataFrame(
        {
            "head": head,
            "position": np.arange(n),
            "queries": ANY if found.queries is None else NORM,
            "normalised": normalised,
            "n_keys": n,
            "dimensions": d,
            "lower": found.lower,
            "upper": found.upper,
            "received_max": np.full(n, np.nan) if got is None else got.largest,
            "received_mean": np.full(n, np.nan) if got is None else got.mean,
        }
    )
