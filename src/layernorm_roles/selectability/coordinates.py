"""Coordinates in which the search for certificates is quick: whitened keys, and the way back for queries.

Which keys can win does not depend on the coordinates, since a linear map of the keys is undone by a linear map of the
queries. Here columns are brought to a common scale by powers of two, keys centred, directions without variation
dropped, and the rest whitened. A bias becomes one more coordinate.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from layernorm_roles.selectability.arrays import largest_magnitude

# Standard deviation, relative to the largest magnitude in the column, below which a direction is rounding noise.
NULL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-7}

_TINY = 2.0**-200
_RANGE = 900  # powers of two between a bias and a column of keys, at most; queries have to stay finite
_ROWS = 4096  # rows for which intermediate results are held at once


class Coordinates(NamedTuple):
    """A stack of m matrices of n keys in r whitened coordinates, of which a bias, if there is one, is the last."""

    W: Float[np.ndarray, "m n r"]
    """The keys; coordinates beyond the rank of a matrix are 0, so that all matrices share an array."""
    B: Float[np.ndarray, "m r d"]
    """Query q of the whitened keys is q B for the columns of the data, each divided by 2**exponent."""
    exponent: Int[np.ndarray, "m d"]
    push: Float[np.ndarray, "m n"]
    """How far a key has to go from the mean to move by the tolerance, in units of its distance from the mean."""
    raised: Float[np.ndarray, "m n"]
    """The last coordinate of a key pushed so, whose bias is raised by the tolerance; 0 where there is no bias."""
    axes: Float[np.ndarray, "m d r"]
    """The directions of the coordinates in the space of the keys, without a bias."""
    spread: Float[np.ndarray, "m 1 r"]
    """The standard deviation of the keys along each."""
    rank: Int[np.ndarray, " m"]
    """Coordinates in which the keys of a matrix vary, a bias not counted."""
    sharp: Bool[np.ndarray, " m"]
    """Whether rounding moves no key of a matrix as far as the tolerance does, in any of its directions."""


def whiten(
    keys: Float[np.ndarray, "m n d"], null: float, tolerance: float, causal: bool = False
) -> Coordinates:
    """The whitened coordinates of float64 keys; directions with a standard deviation below `null` are dropped.

    If `causal`, a key is pushed away from the mean of the keys before it instead of from the mean of all keys. No more
    than three arrays of the shape of the keys exist at once.
    """
    _, n, d = keys.shape
    largest = largest_magnitude(keys, axis=1, keepdims=True)
    exponent = np.frexp(largest)[1]
    centred = np.ldexp(keys, -exponent)  # exact
    centred -= centred.mean(axis=1, keepdims=True)
    if n > d:
        # Eigenvectors of the covariance are accurate where its small eigenvalues are not: measure along them.
        axes = np.linalg.eigh(centred.swapaxes(1, 2) @ centred)[1][:, :, ::-1]
    else:
        axes = np.linalg.svd(centred, full_matrices=False)[2].swapaxes(1, 2)
    W = centred @ axes
    if causal:
        centred = _minus_mean_before(centred)
    distance = largest_magnitude(centred, axis=2)
    longest = np.sqrt(np.einsum("mnd,mnd->mn", centred, centred).max(axis=1))
    del centred
    spread = np.sqrt((W**2).mean(axis=1, keepdims=True))
    varies = spread > null
    rank = varies.sum(axis=(1, 2))
    used = np.argsort(~varies, axis=2, kind="stable")[:, :, : max(1, rank.max())]
    axes, W, spread, varies = (np.take_along_axis(part, used, 2) for part in (axes, W, spread, varies))
    inverse = np.where(varies, 1 / np.where(varies, spread, 1), 0)
    W *= inverse
    thinnest = np.where(varies, spread, 1).min(axis=(1, 2))
    away = distance > _TINY  # the others have no direction to be pushed in
    return Coordinates(
        W=W,
        B=(axes * inverse).swapaxes(1, 2),
        exponent=exponent[:, 0],
        push=np.where(away, tolerance / np.where(away, distance, 1), 0),
        raised=np.zeros_like(distance),
        axes=axes,
        spread=np.where(varies, spread, 0),
        rank=rank,
        sharp=_is_sharp(
            W, thinnest, longest * (2 + d**0.5), tolerance / np.maximum(distance.max(axis=1), _TINY)
        ),
    )


def _is_sharp(
    W: Float[np.ndarray, "m n r"],
    thinnest: Float[np.ndarray, " m"],
    terms: Float[np.ndarray, " m"],
    push: Float[np.ndarray, " m"],
) -> Bool[np.ndarray, " m"]:
    """Whether the pushed keys lie deeper in the hull, if they do at all, than rounding can tell.

    A coordinate of a key is wrong by about `terms` units in the last place, in units of its standard deviation, which
    is at least `thinnest`. A key whose image, pushed by `push` times its distance from the mean, is in the hull lies
    below the hull's surface by that part of the hull's inner radius. And that radius is at least 1 / R in whitened
    coordinates, R the length of the longest key: a variable of mean 0 and variance 1 that is never below -R exceeds
    1 / R (Bhatia and Davis 2000).
    """
    R = np.sqrt(np.einsum("mnr,mnr->mn", W, W).max(axis=1))
    return push * thinnest > 2.0**-53 * terms * R


def own_directions(
    at: Coordinates, keys: Float[np.ndarray, "m n d"], biased: bool
) -> Float[np.ndarray, "m n r"]:
    """For every key the query worth trying first: itself, as it is in the data."""
    if biased:
        W = at.W.copy()
        W[:, :, -1] = np.maximum(W[:, :, -1], 0.3)
        return W
    exponent = at.exponent[:, None]
    scaled = np.ldexp(keys, -exponent)
    scaled *= np.exp2(2.0 * (exponent - exponent.max(axis=2, keepdims=True)))
    scaled = scaled @ at.axes
    scaled *= at.spread
    return scaled


def _minus_mean_before(rows: Float[np.ndarray, "m n c"]) -> Float[np.ndarray, "m n c"]:
    """Every row minus the mean of the rows before it; the first one, which has none before it, becomes 0."""
    number = np.arange(1, rows.shape[1])[:, None]
    less = np.zeros_like(rows)
    less[:, 1:] = rows[:, 1:] - np.cumsum(rows[:, :-1], axis=1) / number
    return less


def refuse_incomparable(keys: Float[np.ndarray, "n d"], bias: Float[np.ndarray, " n"]) -> None:
    """Raise ValueError if a query that offsets the bias would not be finite in float64."""
    column, largest = largest_magnitude(keys, axis=0), abs(bias).max()
    smallest = column[column > 0].min(initial=np.inf)
    if largest > 0 and np.frexp(largest)[1] - np.frexp(smallest)[1] > _RANGE:
        raise ValueError(
            f"bias has {largest:g}, and a column of the keys nothing above {smallest:g}: expected sizes that float64 "
            "can compare"
        )


def append_bias(
    at: Coordinates, bias: Float[np.ndarray, "m n"], null: float, tolerance: float
) -> Coordinates:
    """`at` with one more coordinate: what the keys do not already say about a float64 bias.

    The part of the bias that is linear in the keys needs no coordinate, since the query may take it up.
    """
    exponent = np.frexp(abs(bias).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(bias, -exponent)
    scaled = scaled - scaled.mean(axis=1, keepdims=True)
    slope = at.W.swapaxes(1, 2) @ scaled[:, :, None] / bias.shape[1]  # W has covariance 1, or 0 where dropped
    linear = at.W @ slope
    rest = scaled[:, :, None] - linear
    spread = np.sqrt((rest**2).mean(axis=1, keepdims=True))
    inverse = np.where(spread > null, 1 / np.where(spread > null, spread, 1), 0)
    unit = np.where(spread > null, inverse, 1)
    last = rest * inverse
    raised = (rest - at.push[:, :, None] * linear + tolerance) * inverse
    r, d = at.B.shape[1:]
    B = np.zeros((len(bias), r + 1, d + 1))
    B[:, :r, :d] = at.B
    B[:, r, :d] = -((slope * unit).swapaxes(1, 2) @ at.B)[:, 0]
    B[:, r, d] = unit[:, 0, 0]
    return Coordinates(
        W=np.concatenate([at.W, last], axis=2),
        B=B,
        exponent=np.concatenate([at.exponent, exponent], axis=1),
        push=at.push,
        raised=raised[:, :, 0],
        axes=at.axes,
        spread=at.spread,
        rank=at.rank,
        sharp=at.sharp,  # a bias is raised by the tolerance in its own units, which rounding does not come near
    )


def queries_for_data(
    queries: Float[np.ndarray, "m n r"], at: Coordinates, biased: bool
) -> Float[np.ndarray, "m n columns"]:
    """Turn queries for the whitened keys into queries for the keys as they were given.

    `queries` holds one for each of the n keys of m matrices in the r coordinates of `at`; a query of 0 stands for none
    and stays 0. If the keys are `biased`, a query is divided by its coordinate for the bias, so that the score of key i
    is q.k_i + b_i. If not, its length is such that no key has a score above about 1.
    """
    queries, exponent = queries @ at.B, at.exponent
    if biased:
        last = queries[:, :, -1:]
        fixed = np.divide(queries, last, out=np.zeros_like(queries), where=last > 0)[:, :, :-1]
        # A query of 0 stands for none, but where the bias decides it is one: another that nobody can tell from it.
        fixed[..., 0][(last[..., 0] > 0) & ~fixed.any(axis=2)] = _TINY
        return np.ldexp(fixed, (exponent[:, -1:] - exponent[:, :-1])[:, None])
    for start in range(0, queries.shape[1], _ROWS):
        part = queries[:, start : start + _ROWS]
        size = abs(part).sum(axis=2, keepdims=True)
        part /= np.where(size > 0, size, 1)
        np.ldexp(part, -exponent[:, None], out=part)
    return queries
