"""Lower and upper bounds on the largest attention that a query can give a key, with allowances for rounding.

They are computed from stored queries and proofs alone. With the unit 2^-52, half of which is the largest relative error
of an operation, a score q.(k_j - k_i) of d products, from centred keys, is computed to within 4 (d + 3) unit R,
R = sum_a |q_a| max_j |k_ja|; a sum of n exponentials to a relative (n + 8) unit beyond that.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from layernorm_roles.selectability.ceilings_newton import LARGEST_SCORE, blocks_of, in_blocks, softmax
from layernorm_roles.selectability.ceilings_queries import QueryEllipsoid

_UNIT = np.finfo(np.float64).eps


class Bounds(NamedTuple):
    """Proved lower and upper bounds on the largest attention weight, 0..1, that any query can give each of n keys."""

    lower: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]


def over_all_queries(
    keys: Float[np.ndarray, "n d"],
    whitened: Float[np.ndarray, "n r"],
    copies: Int[np.ndarray, " n"],
    query: Float[np.ndarray, "n d"],
    step: Float[np.ndarray, "n d"],
) -> Bounds:
    """Bounds on the attention weight that any query can give each of n distinct keys; key i occurs copies[i] times.

    Row i of `query` gives the copies of key j together the softmax weight p_j. The lower bound is the weight that it
    gives one copy of key i. The upper bound is about exp(-H), with H the entropy, over single copies, of the weights

        mu_j = p_j max(0, 1 + (k_j - sum_l p_l k_l).step)    divided by their sum.

    Row i of `step` is a step of Newton's method, so that the keys' mean with these weights is k_i up to a residual r. A
    query q gives key i at most exp(-H + |q.r|), and |q.r| is bounded for q with scores up to 10,000 (`LARGEST_SCORE`).
    The upper bound of a key with m copies is at most 1/m, and it is 1/m if `query` clearly puts the key first.
    """
    n, d = keys.shape
    centred, logs = keys - keys.mean(axis=0), np.log(copies)
    size, spread = abs(centred).max(axis=0), abs(whitened).max(axis=0)
    lower, upper = np.empty(n), 1 / copies

    def bound(rows: Int[np.ndarray, " b"]) -> None:
        own = np.arange(len(rows)), rows
        scores = query[rows] @ centred.T
        scores -= scores[own][:, None]
        p, f = softmax(scores + logs)
        score = 4 * (d + 3) * _UNIT * (abs(query[rows]) @ size)
        lower[rows] = np.exp(-(f + _rounding(f, score, n)))

        scores[own] = -np.inf
        behind = scores.max(axis=1) >= -score
        rows, p = rows[behind], p[behind]
        along = step[rows] @ centred.T
        weights = p * np.maximum(1 + along - (p * along).sum(axis=1, keepdims=True), 0)
        weights /= weights.sum(axis=1, keepdims=True)
        entropy = -(weights * np.log(np.where(weights > 0, weights / copies, 1))).sum(axis=1)
        residual = abs(weights @ whitened - whitened[rows]) + (n + 8) * _UNIT * spread
        residual = np.divide(residual, spread, out=np.zeros_like(residual), where=spread > 0).max(axis=1)
        allowance = LARGEST_SCORE * residual + (n + 16) * _UNIT * (1 + np.log(copies.sum()))
        proved = np.exp(np.minimum(allowance - entropy, 0))
        # A query that gives more than is proved has scores beyond the reach of the proof.
        upper[rows] = np.where(lower[rows] > proved, upper[rows], np.minimum(proved, upper[rows]))

    in_blocks(n, bound, blocks_of(np.arange(n), n))
    return Bounds(lower, upper)


@np.errstate(over="ignore")  # scores beyond float64's range: the upper bound is then 1
def over_ellipsoid(
    keys: Float[np.ndarray, "n d"],
    queries: QueryEllipsoid,
    query: Float[np.ndarray, "n d"],
    point: Float[np.ndarray, "n r"],
) -> Bounds:
    """Bounds on the attention weight that the queries centre + axes u, with |u| <= 1, can give each of n keys.

    The lower bound for key i is the softmax weight that row i of `query`, which lies in the ellipsoid, gives it. Minus
    the logarithm of the weight is a convex function f(u). With its gradient g at u = row i of `point`, the weight is at
    most exp(-(f(u) - g.u - |g|)), which is the upper bound. Both bounds allow for rounding.
    """
    n, d = keys.shape
    centred = keys - keys.mean(axis=0)
    size = abs(centred).max(axis=0)
    slope = float(np.sqrt((queries.axes**2).sum(axis=1)) @ size)
    unit = 4 * (d + queries.axes.shape[1] + 3) * _UNIT
    lower, upper = np.empty(n), np.empty(n)

    @np.errstate(over="ignore")  # a thread of its own has its own state
    def bound(rows: Int[np.ndarray, " b"]) -> None:
        score = unit * ((abs(queries.centre) + abs(query[rows] - queries.centre)) @ size)
        f, _ = _minus_log_softmax(centred, query[rows], rows)
        lower[rows] = np.exp(-(f + _rounding(f, score, n)))
        score = unit * ((abs(queries.centre) + abs(point[rows]) @ abs(queries.axes.T)) @ size)
        f, gradient = _minus_log_softmax(centred, queries.centre + point[rows] @ queries.axes.T, rows)
        gradient = gradient @ queries.axes
        fall = (gradient * point[rows]).sum(axis=1) + np.sqrt((gradient**2).sum(axis=1))
        # In the gradient every difference k_j - k_i is weighted by an attention with the relative error of exp(f).
        allowance = _rounding(f, score, n)
        allowance += slope * (8 * _rounding(f, score, n) + 2 * (n + d + 8) * _UNIT)
        upper[rows] = np.minimum(np.exp(-(f - fall - allowance)), 1)

    in_blocks(n, bound, blocks_of(np.arange(n), n))
    return Bounds(lower, upper)


def _rounding(f, score, n):
    """How far f = log(1 + S) may be off, if S is a sum of exponentials of n scores that may be off by `score`."""
    return -np.expm1(-f) * np.expm1(np.minimum(score, 600)) + 2 * (n + 8) * _UNIT


def _minus_log_softmax(centred, query, rows):
    """f = -log softmax(K q)_i of key i = rows[k] for query k, and f's gradient by q."""
    scores = query @ centred.T
    scores -= scores[np.arange(len(rows)), rows][:, None]
    p, f = softmax(scores)
    return f, p @ centred - centred[rows]
