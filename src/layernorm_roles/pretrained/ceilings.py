"""How much attention the keys of a pretrained model can get: certified ceilings, beside what they do get."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles.job import Progress
from layernorm_roles.pretrained.keys import keys_without_norm
from layernorm_roles.pretrained.recording import RecordedLayer, RecordingModel
from layernorm_roles.selectability.ceilings import Ceilings, QueryEllipsoid, ceilings

AS_USED, WITHOUT_NORM = "as used", "without norm"
"""Values of the column `normalised`: the keys of the heads, or those made from the stream before the norm."""
ANY, NORM = "any", "norm"
"""Values of the column `queries`: all queries, or those that the head can make behind its norm, on any text."""


class Received(NamedTuple):
    """What the queries of a context give each key of one head, as shares of their attention, 0..1."""

    largest: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]


def received(layer: RecordedLayer, head: int) -> Received:
    """The largest and the mean attention that the keys of a head get from the queries that may see them."""
    weights = layer.attention()[head]
    return Received(weights.max(axis=0), weights.sum(axis=0) / layer.visible.sum(axis=0))


def queries_behind_norm(layer: RecordedLayer, head: int) -> QueryEllipsoid | None:
    """All queries that a head can make of what its norm lets through, as used in scores; None where not known.

    Not known are heads whose norm is unknown, whose queries are normed once more, or turned by a rotary embedding:
    then each position has an ellipsoid of its own.
    """
    norm, projection = layer.norm, layer.query_projection
    if norm is None or projection is None or projection.norm is not None or projection.rotation is not None:
        return None
    w_q, b_q = projection.weight[head], projection.bias[head]
    if norm.kind == "layernorm":
        return QueryEllipsoid.of_layernorm(w_q, b_q, norm.gain, norm.bias, scale=layer.scaling)
    return QueryEllipsoid.of_rmsnorm(w_q, b_q, norm.gain, scale=layer.scaling)


def table(
    model: RecordingModel, chosen: Mapping[int, Sequence[int]], name: str, spell: Mapping[int, str]
) -> pd.DataFrame:
    """Table attention_ceilings of a pretrained model, every bound verified.

    `chosen` has the token ids of each context by its number, `spell` the text of each token id that occurs, and `name`
    goes to the column model. Every ceiling is among all keys of the context, also in a causal model, whose queries
    meet fewer. A head whose norm is not known has no rows without the norm, nor any for the queries behind it.
    """
    progress = Progress(f"ceilings of {name}", len(chosen), "contexts")
    parts = []
    for done, (number, tokens) in enumerate(chosen.items(), start=1):
        words = [spell[token] for token in tokens]
        for layer in model.record(tokens):
            for part in _of_layer(layer):
                parts.append(part.assign(context=number, layer=layer.layer, token=words))
        progress(done)
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.assign(model=name, variant=None, seed=None, checkpoint="pretrained")
    return frame.astype({"variant": "object", "seed": "Int64"})


def _of_layer(layer: RecordedLayer) -> Iterator[pd.DataFrame]:
    """The rows of each head, kind of keys and set of queries of one layer."""
    share = len(layer.queries) // len(layer.keys)  # query heads that share a key head
    kinds = {AS_USED: layer.keys, WITHOUT_NORM: keys_without_norm(layer)}
    for normalised, keys in kinds.items():
        for key_head, matrix in enumerate(() if keys is None else keys):
            anywhere = _verified(matrix)
            for head in range(key_head * share, (key_head + 1) * share):
                got = received(layer, head) if normalised == AS_USED else None
                yield _rows(head, normalised, ANY, matrix, anywhere, got)
                behind = queries_behind_norm(layer, head)
                if behind is not None:
                    yield _rows(head, normalised, NORM, matrix, _verified(matrix, behind), got)


def _verified(keys: Float[np.ndarray, "n d"], queries: QueryEllipsoid | None = None) -> Ceilings:
    """The ceilings of keys, after their bounds were computed again from the stored queries and proofs."""
    found = ceilings(keys, queries)
    found.verify(keys)
    return found


def _rows(
    head: int,
    normalised: str,
    queries: str,
    keys: Float[np.ndarray, "n d"],
    found: Ceilings,
    got: Received | None,
) -> pd.DataFrame:
    n, d = keys.shape
    return pd.DataFrame(
        {
            "head": head,
            "position": np.arange(n),
            "queries": queries,
            "normalised": normalised,
            "n_keys": n,
            "dimensions": d,
            "lower": found.lower,
            "upper": found.upper,
            "received_max": np.full(n, np.nan) if got is None else got.largest,
            "received_mean": np.full(n, np.nan) if got is None else got.mean,
        }
    )
