"""How much attention the keys of a layer's heads can get, and do get: proved bounds and tables of them.

A key's ceiling is the largest attention weight that a query of a set gives it, in a softmax over all keys of a text.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from layernorm_roles.heads.keys import keys_without_norm
from layernorm_roles.heads.layer import Layer
from layernorm_roles.schemas import ANY, AS_USED, CEILING_QUANTILES, CEILING_SHARES, NORM, OWN
from layernorm_roles.selectability.ceilings import QueryEllipsoid, ceilings

HALF = 0.5
"""Attention weight beyond which the key that gets it has the highest score of all keys."""


def queries_behind_norm(layer: Layer, head: int) -> QueryEllipsoid | None:
    """The ellipsoid of queries that a head can compute from outputs of the norm before attention; None if unknown.

    The queries include the factor `layer.scaling` of the attention scores. The ellipsoid is unknown if that norm or W_Q
    is not known, if the norm is neither a LayerNorm nor an RMSNorm, or if another norm or a rotary embedding acts on
    the queries.
    """
    norm, projection = layer.norm, layer.query_projection
    if norm is None or projection is None or projection.norm is not None or projection.rotation is not None:
        return None
    w_q, b_q = projection.weight[head], projection.bias[head]
    if norm.kind == "layernorm":
        return QueryEllipsoid.of_layernorm(w_q, b_q, norm.gain, norm.bias, scale=layer.scaling)
    return QueryEllipsoid.of_rmsnorm(w_q, b_q, norm.gain, scale=layer.scaling)


def pairs(layer: Layer, normalised: Sequence[str]) -> pd.DataFrame:
    """A table of proved bounds on the attention that each key of a layer can get in each query head.

    A row is for one query head, one key, one kind of keys in `normalised` (AS_USED: the model's keys; WITHOUT_NORM:
    those of `keys_without_norm`) and one set of queries (ANY: all vectors; NORM: those that the head can compute from
    outputs of the norm before attention). Rows for WITHOUT_NORM and NORM are missing if they cannot be computed.
    Columns: layer, head (of the queries), position (of the key), queries, normalised, n_keys, dimensions, lower and
    upper (bounds on the largest attention weight) and received_max (the largest weight from the text's own queries; NaN
    for WITHOUT_NORM).
    """
    parts = []
    for kind in normalised:
        stack = layer.keys if kind == AS_USED else keys_without_norm(layer)
        anywhere = [] if stack is None else [ceilings(keys) for keys in stack]
        for head in range(len(layer.queries)) if anywhere else ():
            keys = stack[layer.key_head(head)]
            bounds_by_queries = {ANY: anywhere[layer.key_head(head)]}
            if (behind := queries_behind_norm(layer, head)) is not None:
                bounds_by_queries[NORM] = ceilings(keys, behind)
            n, d = keys.shape
            received = layer.attention(head).max(axis=0) if kind == AS_USED else np.full(n, np.nan)
            columns = {"layer": layer.layer, "head": head, "position": np.arange(n), "normalised": kind}
            columns |= {"n_keys": n, "dimensions": d, "received_max": received}
            for queries, bounds in bounds_by_queries.items():
                bounds.verify(keys)
                bounded = {"queries": queries, "lower": bounds.lower, "upper": bounds.upper}
                parts.append(pd.DataFrame(columns | bounded))
    return pd.concat(parts, ignore_index=True)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """A table that counts the pairs of a key and a query head by how much attention the key can get.

    `pairs` is a table of the function `pairs` with a column context, the number of the text. A row of the result is for
    one text, layer (null for all layers together), set of queries (as in `pairs`, or OWN for the text's own queries)
    and kind of keys (column normalised). Column pairs is the number of pairs; lower_below and upper_below count the
    pairs with a bound below each of CEILING_SHARES. idle counts the pairs whose key could get half of a query's
    attention, but gets less from every query of the text. quantiles has the CEILING_QUANTILES of the upper bounds.
    n_keys and dimensions are as in `pairs`.
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
    """A table of tokens with an upper bound on the attention that the key of each token can get in one layer's heads.

    The layer is the one with the largest share of keys whose bound is below 0.5. The bounds are over all queries that a
    head can compute from outputs of the norm before attention; the table is empty if they are unknown. `pairs` is a
    table of the function `pairs` with a column context, the number of the text; `words` has the tokens of each text.
    Columns: context, layer, head, position, token, upper (the bound) and received_max (the largest weight from a query
    of the text).
    """
    chosen = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    shares = (chosen.upper < HALF).groupby(chosen.layer).mean()
    chosen = chosen[chosen.layer == (shares.idxmax() if len(shares) else 0)]
    token = [
        words[context][position] for context, position in zip(chosen.context, chosen.position, strict=True)
    ]
    return chosen[["context", "layer", "head", "position", "upper", "received_max"]].assign(token=token)
