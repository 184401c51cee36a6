"""By how much does each key beat its best rival, under the query meant for it? One comparison of all keys with all.

The scores of small matrices are computed as they are. In a large one almost every pair can be ruled out in float32,
which takes half the time, because the error of such a score is bounded; float64 decides what is left. Blocks of queries
then go to all cores, and no number depends on how many there are.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from layernorm_roles.selectability.arrays import largest_magnitude
from layernorm_roles.selectability.threads import on_all_cores

LARGE = 2048
"""From so many keys on a matrix is large."""

_SCORES = 1 << 16  # scores of small matrices held at once: half a MiB, which stays in a core's cache
_QUERIES, _KEYS = 512, 256  # the scores of a large matrix held at once by each thread
_ROWS = 4096  # rows converted at once

_UNIT = 2.0**-24  # relative error of one operation in float32


def leads(
    keys: Float[np.ndarray, "m n c"],
    queries: Float[np.ndarray, "m n c"],
    causal: bool,
    bias: Float[np.ndarray, "m n"] | None = None,
    name_rivals: bool = False,
) -> tuple[Float[np.ndarray, "m n"], Int[np.ndarray, "m n"] | None]:
    """The lead q_i.k_i + b_i - max_j (q_j.k_j + b_j) of every key over its rivals, and the number of the best rival.

    keys, queries, bias: finite, float64; query i is meant for key i. The rivals are all other keys, or, if `causal`,
    those with smaller numbers; a key without rivals has an infinite lead. NaN and -1 where the query is 0. None instead
    of the numbers unless they are asked for by `name_rivals`.
    """
    of_matrices = _of_small if keys.shape[1] < LARGE else _of_large
    lead = np.full(keys.shape[:2], np.nan)
    rival = np.full(keys.shape[:2], -1) if name_rivals else None
    of_matrices(keys, bias, queries, causal, lead, rival)
    return lead, rival


def _of_small(keys, bias, queries, causal, lead, rival) -> None:
    """Fill in `lead` and `rival` (m, n) for matrices of which at least one fits the cache."""
    n = keys.shape[1]
    given = queries.any(axis=2)
    at_once = max(1, _SCORES // n**2)
    for a in range(0, len(keys), at_once):
        part = slice(a, a + at_once)
        wanted = np.flatnonzero(given[part].any(axis=0))
        for b in range(0, len(wanted), max(1, _SCORES // n)):
            rows = wanted[b : b + max(1, _SCORES // n)]
            rivals = slice(0, rows[-1] + 1 if causal else n)
            scores = queries[part, rows] @ keys[part, rivals].swapaxes(1, 2)
            if bias is not None:
                scores += bias[part, None, rivals]
            own = scores[:, np.arange(len(rows)), rows]
            _leave_rivals(scores, rows, rivals, causal)
            lead[part, rows] = own - scores.max(axis=2)
            if rival is not None:
                rival[part, rows] = scores.argmax(axis=2)
    lead[~given] = np.nan
    if rival is not None:
        rival[~given] = -1


def _leave_rivals(
    scores: Float[np.ndarray, "... k n"], rows: Int[np.ndarray, " k"], keys: slice, causal: bool
) -> None:
    """Set the scores of the queries for keys `rows` to minus infinity where `keys` are none of their rivals."""
    if causal:
        first = max(rows.min(), keys.start)
        later = scores[..., first - keys.start :]
        np.copyto(later, -np.inf, where=np.arange(first, keys.stop) >= rows[:, None])
    else:
        inside = np.flatnonzero((rows >= keys.start) & (rows < keys.stop))
        scores[..., inside, rows[inside] - keys.start] = -np.inf


def _of_large(keys, bias, queries, causal, lead, rival) -> None:
    """Fill in `lead` and `rival` (m, n) matrix by matrix."""
    for a in range(len(keys)):
        asked = np.flatnonzero(queries[a].any(axis=1))
        if causal:
            lead[a, asked[asked == 0]] = np.inf
            asked = asked[asked > 0]
        if len(asked):
            compare = _Comparison(
                keys[a], np.zeros(keys.shape[1]) if bias is None else bias[a], queries[a], causal
            )
            blocks = [asked[part] for part in _slices(len(asked), _QUERIES)]
            for rows, found in zip(blocks, on_all_cores(compare, blocks), strict=True):
                lead[a, rows] = found[0]
                if rival is not None:
                    rival[a, rows] = found[1]


class _Comparison:
    """The leads in one large matrix of keys (n, c) with their biases (n,) and queries (n, c).

    Every column of the keys, and the bias, is scaled by a power of two, so that its entries are below 1, and every
    query accordingly and to length 1. A key k and a query q of c + 1 entries are then rounded to float32, and so is
    their product, which is wrong by at most g |q| |k| with g = (c + 4) u / (1 - (c + 4) u), u = 2^-24, in whatever
    order it is summed (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). One more u is for
    entries too small for float32. A rival whose score is lower than another one's by more than twice that is not the
    best.
    """

    def __init__(
        self,
        keys: Float[np.ndarray, "n c"],
        bias: Float[np.ndarray, " n"],
        queries: Float[np.ndarray, "n c"],
        causal: bool,
    ):
        self.keys, self.bias, self.queries, self.causal = keys, bias, queries, causal
        n, c = keys.shape
        largest = np.append(largest_magnitude(keys, axis=0), largest_magnitude(bias[:, None], axis=0))
        self.exponent = np.frexp(largest)[1]
        self.low = np.empty((n, c + 1), np.float32)
        longest = 0.0
        for rows in _slices(n, _ROWS):
            scaled = np.ldexp(np.column_stack([keys[rows], bias[rows]]), -self.exponent)
            self.low[rows] = scaled
            longest = max(longest, float(np.einsum("ij,ij->i", scaled, scaled).max()) ** 0.5)
        terms = (c + 5) * _UNIT
        self.slack = 2 * terms / (1 - terms) * longest * (1 + 1e-6)

    def __call__(self, rows: Int[np.ndarray, " k"]) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """The leads of the keys `rows`, which have at least one rival each, by their queries, and their best rivals."""
        own = self.queries[rows]
        tiles = list(_slices(int(rows.max()) + 1 if self.causal else len(self.keys), _KEYS))
        best = self._best_in_float32(own, rows, tiles)
        close = best >= best.max(axis=1, keepdims=True) - self.slack
        lowest, rival = np.full(len(rows), -np.inf), np.zeros(len(rows), np.int64)
        for t in np.flatnonzero(close.any(axis=0)):
            asking = np.flatnonzero(close[:, t])
            scores = own[asking] @ self.keys[tiles[t]].T
            scores += self.bias[tiles[t]]
            _leave_rivals(scores, rows[asking], tiles[t], self.causal)
            at = scores.argmax(axis=1)
            score = scores[np.arange(len(asking)), at]
            better = score > lowest[asking]
            lowest[asking[better]], rival[asking[better]] = score[better], at[better] + tiles[t].start
        return np.einsum("ij,ij->i", own, self.keys[rows]) + self.bias[rows] - lowest, rival

    def _best_in_float32(
        self, queries: Float[np.ndarray, "k c"], rows: Int[np.ndarray, " k"], tiles: list[slice]
    ) -> Float[np.ndarray, "k tiles"]:
        """The best score in float32 of the rivals in each tile of keys; minus infinity where there are none."""
        scaled = np.ldexp(np.column_stack([queries, np.ones(len(queries))]), self.exponent)
        scaled /= abs(scaled).max(axis=1, keepdims=True)
        scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        low = scaled.astype(np.float32)
        best = np.empty((len(queries), len(tiles)))
        for t, tile in enumerate(tiles):
            scores = low @ self.low[tile].T
            _leave_rivals(scores, rows, tile, self.causal)
            best[:, t] = scores.max(axis=1)
        return best


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
