"""Coordinates in which it is quick to search for queries that put a key first: whitened keys, and the way back.

A linear map of the keys is undone by one of the queries, so it does not change which keys can get the highest score.
Here columns are brought to a common scale by powers of two, keys centred, directions without variation dropped, and the
rest whitened. A bias becomes one more coordinate.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from layernorm_roles.selectability.arrays import Keys, Numbers, double, largest_magnitude, row_blocks

# Standard deviation, relative to the largest magnitude in the column, below which a direction is rounding noise.
NULL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-7}

_TINY = 2.0**-200
_RANGE = 900  # powers of two between a bias and a column of keys, at most; queries have to stay finite


@dataclass(frozen=True)
class Coordinates:
    """Whitened coordinates of the n keys of m matrices; `answers` turns queries for them into queries for the keys."""

    keys: Keys
    """The keys as they were given, not whitened."""
    whole: Float[np.ndarray, "m n k"] | None
    """The whitened keys without a bias, if one block of rows holds all of them; else None, and `of` computes them."""
    exponent: Int[np.ndarray, "m columns"]
    """Every column of the keys, and a bias, which comes last, is divided by 2**exponent before it is centred."""
    mean: Float[np.ndarray, "m 1 d"]
    """The mean of the scaled keys, whose columns are divided by 2**exponent."""
    axes: Float[np.ndarray, "m d k"]
    """Principal axes of the centred and scaled keys, without a bias: a unit vector for each whitened coordinate."""
    inverse: Float[np.ndarray, "m 1 k"]
    """1 / the standard deviation of the scaled keys along each of `axes`; 0 for axes beyond the rank of a matrix."""
    B: Float[np.ndarray, "m r columns"]
    """Matrix that turns a query q for the whitened keys into a query q B for the scaled keys; with a bias, the last
    entry of q B is the factor of the scaled bias."""
    push: Numbers
    """For every key the tolerance divided by the largest coordinate of its difference from the mean. Pushed outwards
    by the tolerance, a key moves by this factor times the difference."""
    raised: Numbers
    """The last coordinate, a bias's, of keys pushed outwards with a bias raised by the tolerance; 0 without a bias."""
    last: Numbers | None
    """The last coordinate, a bias's, of every key; None without a bias."""
    rank: Int[np.ndarray, " m"]
    """Number of coordinates, without a bias's, in which the keys of each matrix vary."""
    depth: Float[np.ndarray, " m"]
    """For each matrix its smallest positive `push` times the smallest standard deviation of the scaled keys along an
    axis, which `sharp` compares with errors of rounding."""
    rounding: Float[np.ndarray, " m"]
    """Bound on the rounding error of a scaled key's coordinate along an axis, not divided by the standard deviation."""

    def of(self, matrices: slice, rows: slice | Int[np.ndarray, " k"]) -> Float[np.ndarray, "a k r"]:
        """Return the whitened coordinates of the keys `rows` of the matrices `matrices`."""
        if self.whole is not None:
            W = self.whole[matrices, rows]
        else:
            W = scaled_by(self.keys[matrices, rows], self.exponent[matrices, : self.keys.shape[2]])
            W -= self.mean[matrices]
            W = W @ self.axes[matrices]
            W *= self.inverse[matrices]
        return W if self.last is None else np.concatenate([W, self.last[matrices, rows, None]], axis=2)

    def answers(self, queries: Float[np.ndarray, "a k r"]) -> Float[np.ndarray, "a k d"]:
        """Turn `queries` for whitened keys into queries for the original keys; a row of zeros stands for no query.

        If scores have a bias, each query is divided by the factor that it gives the bias, so that scores are q.k_i +
        b_i. If the factor is not positive, the result is a row of zeros.
        """
        queries, exponent = queries @ self.B, self.exponent
        if self.last is None:
            return of_size_one(queries, exponent)[0]
        last = queries[:, :, -1:]
        fixed = np.divide(queries, last, out=np.zeros_like(queries), where=last > 0)[:, :, :-1]
        # A query of 0 means none; where the bias alone decides, a tiny one, which changes no score, stands for it.
        fixed[..., 0][(last[..., 0] > 0) & ~fixed.any(axis=2)] = _TINY
        return np.ldexp(fixed, (exponent[:, -1:] - exponent[:, :-1])[:, None])

    def sharp(self, columns: Float[np.ndarray, "m k n"]) -> Bool[np.ndarray, " m"]:
        """For each matrix, whether rounding errors in its whitened keys are too small to make proofs wrong.

        `columns` are the whitened keys, one a column. A proof shows that a key, pushed away from the mean by the
        tolerance given to `whiten`, is still in the convex hull of others. The key itself is then inside the hull, at a
        depth of about the relative length of the push times the hull's inner radius. The result says whether this
        exceeds the rounding errors. The radius is at least 1 / R, with R the length of the longest whitened key: a
        variable of mean 0 and variance 1 that is never below -R reaches 1 / R (Bhatia and Davis 2000).
        """
        R = np.sqrt(np.einsum("mrn,mrn->mn", columns, columns).max(axis=1))
        return self.depth > self.rounding * R


def exponents(keys: Keys) -> Int[np.ndarray, "m d"]:
    """For each column of m key matrices, the integer e with 2**(e - 1) <= its largest magnitude < 2**e."""
    return np.frexp(largest_magnitude(keys, axis=1))[1]


def varying(keys: Keys) -> Bool[np.ndarray, "m d"]:
    """For each column of m key matrices, whether it holds at least two different numbers."""
    return keys.max(axis=1) != keys.min(axis=1)


def scaled_by(keys: Keys, exponent: Int[np.ndarray, "m d"]) -> Keys:
    """The keys in float64, with each column divided by 2**exponent."""
    return np.ldexp(double(keys), -exponent[:, None])


def of_size_one(
    queries: Float[np.ndarray, "a k columns"], exponent: Int[np.ndarray, "a columns"]
) -> tuple[Float[np.ndarray, "a k columns"], Float[np.ndarray, "a k"]]:
    """Turn `queries` for scaled keys into queries of size 1 for the original keys; return these and the old sizes."""
    size = abs(queries).sum(axis=2)
    queries = queries / np.where(size > 0, size, 1)[:, :, None]
    return np.ldexp(queries, -exponent[:, None], out=queries), size


def whiten(keys: Keys, null: float, tolerance: float, causal: bool = False) -> Coordinates:
    """Whiten m matrices of n keys, `keys` (m, n, d), so that they have mean 0 and covariance 1.

    Columns are first scaled by powers of two to largest magnitudes in [1/2, 1). Directions with a standard deviation of
    at most `null` are then dropped. The result has a factor `push` for each key: times `push`, the key's difference
    from the mean of all keys (if `causal`, of the keys before it) has the largest magnitude `tolerance`.
    """
    m, n, d = keys.shape
    exponent, blocks = exponents(keys), row_blocks(n, m * d)
    mean = sum(scaled_by(keys[:, rows], exponent).sum(axis=1, keepdims=True) for rows in blocks) / n

    def centred(rows: slice) -> Float[np.ndarray, "m k d"]:
        part = scaled_by(keys[:, rows], exponent)
        part -= mean
        return part

    if n > d:
        # Eigenvectors of the covariance are accurate where its small eigenvalues are not: the spread is measured below.
        covariance = sum(part.swapaxes(1, 2) @ part for part in map(centred, blocks))
        axes = np.linalg.eigh(covariance)[1][:, :, ::-1]
    else:
        axes = np.linalg.svd(centred(slice(None)), full_matrices=False)[2].swapaxes(1, 2)
    squares, before = np.zeros((m, 1, axes.shape[2])), np.zeros((m, 1, d))
    distance, longest, whole = np.empty((m, n)), np.zeros(m), None
    for rows in blocks:
        part = centred(rows)
        whole = part @ axes
        squares += (whole**2).sum(axis=1, keepdims=True)
        if causal:
            part, before = _minus_mean_before(part, before, rows.start)
        distance[:, rows] = largest_magnitude(part, axis=2)
        longest = np.maximum(longest, np.einsum("mnd,mnd->mn", part, part).max(axis=1))
    spread = np.sqrt(squares / n)
    varies = spread > null
    rank = varies.sum(axis=(1, 2))
    used = np.argsort(~varies, axis=2, kind="stable")[:, :, : max(1, rank.max())]
    axes, spread, varies = (np.take_along_axis(part, used, 2) for part in (axes, spread, varies))
    inverse = np.divide(1, spread, out=np.zeros_like(spread), where=varies)
    whole = np.take_along_axis(whole, used, 2) * inverse if len(blocks) == 1 else None
    thinnest = np.where(varies, spread, 1).min(axis=(1, 2))
    # A key as near the mean as `_TINY` has no direction to be pushed in.
    push = np.divide(tolerance, distance, out=np.zeros((m, n)), where=distance > _TINY)
    return Coordinates(
        keys=keys,
        whole=whole,
        exponent=exponent,
        mean=mean,
        axes=axes,
        inverse=inverse,
        B=(axes * inverse).swapaxes(1, 2),
        push=push,
        raised=np.zeros_like(distance),
        last=None,
        rank=rank,
        # A coordinate is wrong by about so many units in the last place, in units of its standard deviation, which is
        # at least `thinnest`.
        depth=tolerance / np.maximum(distance.max(axis=1), _TINY) * thinnest,
        rounding=2.0**-53 * np.sqrt(longest) * (2 + d**0.5),
    )


def _minus_mean_before(
    rows: Float[np.ndarray, "m n c"], before: Float[np.ndarray, "m 1 c"], first: int
) -> tuple[Float[np.ndarray, "m n c"], Float[np.ndarray, "m 1 c"]]:
    """Every row minus the mean of all rows before it (the very first becomes 0), and the sum of all rows so far."""
    sums = np.cumsum(np.concatenate([before, rows], axis=1), axis=1)
    number = np.arange(first, first + rows.shape[1])[:, None]
    less = rows - sums[:, :-1] / np.maximum(number, 1)
    if first == 0:
        less[:, 0] = 0
    return less, sums[:, -1:]


def refuse_incomparable(keys: Float[np.ndarray, "n d"], bias: Float[np.ndarray, " n"]) -> None:
    """Raise ValueError if a bias is about 2**900 times the largest entry of some column of `keys`, or larger."""
    column, largest = largest_magnitude(keys, axis=0), abs(bias).max()
    smallest = column[column > 0].min(initial=np.inf)
    if largest > 0 and np.frexp(largest)[1] - np.frexp(smallest)[1] > _RANGE:
        raise ValueError(
            f"bias has {largest:g}, and a column of the keys nothing above {smallest:g}: expected sizes that float64 "
            "can compare"
        )


def append_bias(at: Coordinates, bias: Numbers, null: float, tolerance: float) -> Coordinates:
    """Add one coordinate to the whitened keys `at`, for the `bias` (m, n) that is added to the keys' scores.

    A query can offset the part of the bias that is linear in the keys. The new coordinate is the rest of the bias
    divided by its standard deviation, or 0 if that is at most `null`. `raised` in the result is the new coordinate
    after each key is moved away from the mean by its factor `push`, and its bias is increased by `tolerance`.
    """
    exponent = np.frexp(abs(bias).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(bias, -exponent)
    scaled = scaled - scaled.mean(axis=1, keepdims=True)
    every, blocks = slice(None), row_blocks(bias.shape[1], at.keys[:, 0].size)
    # The whitened keys have covariance 1, or 0 where dropped.
    slope = sum(at.of(every, rows).swapaxes(1, 2) @ scaled[:, rows, None] for rows in blocks) / bias.shape[1]
    linear = np.concatenate([at.of(every, rows) @ slope for rows in blocks], axis=1)[:, :, 0]
    rest = scaled - linear
    spread = np.sqrt((rest**2).mean(axis=1, keepdims=True))
    unit = np.divide(1, spread, out=np.ones_like(spread), where=spread > null)
    inverse = np.where(spread > null, unit, 0)
    r, d = at.B.shape[1:]
    B = np.zeros((len(bias), r + 1, d + 1))
    B[:, :r, :d] = at.B
    B[:, r, :d] = -((slope * unit[:, :, None]).swapaxes(1, 2) @ at.B)[:, 0]
    B[:, r, d] = unit[:, 0]
    return replace(
        at,
        B=B,
        exponent=np.concatenate([at.exponent, exponent], axis=1),
        raised=(rest - at.push * linear + tolerance) * inverse,
        last=rest * inverse,
        # `depth` stays: a bias is raised by the tolerance in its own units, which rounding does not come near.
    )
