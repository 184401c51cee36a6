"""How much attention the keys of a layer's heads can get, and do get: proved bounds and tables of them.

A key's ceiling is the largest attention weight that a query of a set gives it, in a softmax over all keys of a text.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles.heads.keys import keys_without_norm
from layernorm_roles.heads.layer import Layer
from layernorm_roles.schemas import ANY, AS_USED, CEILING_QUANTILES, CEILING_SHARES, NORM, OWN
from layernorm_roles.selectability.ceilings import Ceilings, QueryEllipsoid, ceilings
from layernorm_roles.selectability.threads import on_all_cores, one_thread_a_product

HALF = 0.5
"""Attention weight beyond which the key that gets it has the highest score of all keys."""


def queries_behind_norm(layer: Layer, head: int) -> QueryEllipsoid | None:
    """The ellipsoid of all queries that query head `head` can compute from outputs of the norm before attention.

    The queries are multiplied by `layer.scaling`, so that scores are their inner products with keys. The result is None
    if W_Q or the norm before attention is not known, if that norm is neither a LayerNorm nor an RMSNorm, or if another
    norm or a rotary embedding acts on the queries.
    """
    norm, projection = layer.norm, layer.query_projection
    if norm is None or projection is None or projection.norm is not None or projection.rotation is not None:
        return None
    w_q, b_q = projection.weight[head], projection.bias[head]
    if norm.kind == "layernorm":
        return QueryEllipsoid.of_layernorm(w_q, b_q, norm.gain, norm.bias, scale=layer.scaling)
    return QueryEllipsoid.of_rmsnorm(w_q, b_q, norm.gain, scale=layer.scaling)


def pairs(layer: Layer, normalised: Sequence[str]) -> pd.DataFrame:
    """A table of proved bounds on the largest attention weight that each key of a layer can get in each query head.

    A row is for one query head (column head), one key (position), one kind of keys (normalised) and one set of queries
    (queries). The kinds are those listed in the argument `normalised`: "as used" are the model's keys, "without norm"
    those of `keys_without_norm`. The sets are "any" (all vectors) and "norm" (what the head can compute from outputs of
    the norm before attention). Keys and sets that cannot be computed have no rows. Further columns: layer, n_keys,
    dimensions of a key, lower and upper (the bounds), received_max (the largest weight from a query of the text; NaN if
    "without norm").
    """
    parts, heads = [], list(range(len(layer.queries)))
    with one_thread_a_product():
        received = dict(zip(heads, on_all_cores(layer.received_max, heads), strict=True))
    for kind in normalised:
        stack = layer.keys if kind == AS_USED else keys_without_norm(layer)
        anywhere = [] if stack is None else [_verified(keys) for keys in stack]
        for head in heads if anywhere else ():
            keys = stack[layer.key_head(head)]
            bounds_by_queries = {ANY: anywhere[layer.key_head(head)]}
            if (behind := queries_behind_norm(layer, head)) is not None:
                bounds_by_queries[NORM] = _verified(keys, behind)
            n, d = keys.shape
            columns = {"layer": layer.layer, "head": head, "position": np.arange(n), "normalised": kind}
            columns |= {"n_keys": n, "dimensions": d}
            columns["received_max"] = received[head] if kind == AS_USED else np.nan
            for queries, bounds in bounds_by_queries.items():
                bounded = {"queries": queries, "lower": bounds.lower, "upper": bounds.upper}
                parts.append(pd.DataFrame(columns | bounded))
    return pd.concat(parts, ignore_index=True)


def _verified(keys: Float[np.ndarray, "n d"], queries: QueryEllipsoid | None = None) -> Ceilings:
    bounds = ceilings(keys, queries)
    bounds.verify(keys)
    return bounds


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """A table that counts the pairs of a key and a query head by how much attention the key can get.

    `pairs` is a result of the function `pairs` with one more column, context: the number of the text. A row is for one
    text, layer (null: all together), kind of keys (normalised) and set of queries ("any", "norm", or "own": the
    text's). pairs is the number of pairs; n_keys and dimensions are as in `pairs`. lower_below and upper_below count
    lower and upper bounds below each of the weights schemas.CEILING_SHARES (0.001 to 1); quantiles has the 1 to 99 %
    quantiles of the upper bounds. idle counts the pairs whose key can get a weight of 0.5, but gets less from every
    query of the text.
    """
    own = pairs[(pairs.queries == ANY) & (pairs.normalised == AS_USED)]
    own = own.assign(queries=OWN, lower=own.received_max, upper=own.received_max)
    every, rows = pd.concat([pairs, own], ignore_index=True), []
    for together, names in ((False, ["context", "layer"]), (True, ["context"])):
        for _, part in every.groupby([*names, "queries", "normalised"], sort=False):
            first, idle = part.iloc[0], (part.lower >= HALF) & (part.received_max < HALF)
            rows.append(
                {
                    **first[["context", "layer", "queries", "normalised", "n_keys", "dimensions"]],
                    "layer": None if together else first.layer,
                    "pairs": len(part),
                    "lower_below": _below(part.lower),
                    "upper_below": _below(part.upper),
                    "idle": int(idle.sum()) if first.normalised == AS_USED else None,
                    "quantiles": np.quantile(part.upper, CEILING_QUANTILES),
                }
            )
    return pd.DataFrame(rows).astype({"layer": "Int64", "idle": "Int64"})


def _below(values: pd.Series) -> np.ndarray:
    """The number of `values` below each of CEILING_SHARES."""
    return np.searchsorted(np.sort(values), CEILING_SHARES, side="left")


def of_tokens(pairs: pd.DataFrame, words: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """A table of a text's tokens and how much attention each of them can get at most, in the heads of one layer.

    `pairs` is a result of the function `pairs` with one more column, context: the number of the text. `words` maps this
    number to the tokens of the text. A row is for one text (context), query head (head) and token (position, token) of
    the layer in which the most keys cannot get a weight of 0.5. Column upper is an upper bound on the attention weight
    that the token's key gets from any query that the head can compute from outputs of the norm; received_max is the
    largest weight from a query of the text. The table is empty if `pairs` has no such bounds.
    """
    chosen = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    shares = (chosen.upper < HALF).groupby(chosen.layer).mean()
    chosen = chosen[chosen.layer == (shares.idxmax() if len(shares) else 0)]
    token = [
        words[context][position] for context, position in zip(chosen.context, chosen.position, strict=True)
    ]
    return chosen[["context", "layer", "head", "position", "upper", "received_max"]].assign(token=token)
