"""By how much each key's score under the query that is meant for it exceeds that of the best other key, its lead.

Small matrices are compared in float64. In large ones float32, whose errors are bounded, first rules out almost all
pairs, in blocks on all cores, and float64 decides the rest. No number depends on how many cores there are.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from layernorm_roles.selectability.arrays import Keys, Numbers, Rows, double, largest_magnitude
from layernorm_roles.selectability.threads import on_all_cores
from layernorm_roles.slices import slices

LARGE = 2048
"""Number of keys from which on scores are first computed in float32, and on all cores."""

_SCORES = 1 << 16  # scores of small matrices held at once: half a MiB, which stays in a core's cache
TOGETHER = 512
"""Number of queries whose scores in a large matrix each thread holds at once."""
_KEYS = 256  # the keys of these scores
# The largest powers of two by which columns are scaled, so that scales stay finite.
_RANGE = {np.dtype(np.float64): 1000, np.dtype(np.float32): 100}

_UNIT = 2.0**-24  # relative error of one operation in float32


def leads(
    keys: Keys,
    rows: Rows,
    queries: Float[np.ndarray, "m k c"],
    given: Bool[np.ndarray, "m k"],
    causal: bool,
    bias: Numbers | None = None,
) -> tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]:
    """For each key in `rows`, its lead over the best rival under the query meant for it, and the rival's index.

    The lead of key i is q.k_i + b_i - max_j (q.k_j + b_j). The rivals j are all other keys or, if `causal`, the keys
    before i; without rivals the lead is infinite. `queries` has a query q for each of the k keys in `rows`, in each of
    m matrices. With a bias, c may be d + 1; the last entry of q then multiplies the bias. Where `given` is false, the
    lead is NaN and the index -1. All arrays must be finite.
    """
    lead, rival = np.full(given.shape, np.nan), np.full(given.shape, -1)
    of_matrices = _of_small if keys.shape[1] < LARGE else _of_large
    of_matrices(keys, bias, rows, queries, causal, given, lead, rival)
    return lead, rival


def _of_small(keys, bias, rows, queries, causal, given, lead, rival) -> None:
    n = keys.shape[1]
    for part in slices(len(keys), _SCORES // n**2):
        wanted = np.flatnonzero(given[part].any(axis=0))
        some, biases = double(keys[part]), None if bias is None else bias[part]
        for block in slices(len(wanted), _SCORES // n):
            at = wanted[block]
            rivals = slice(0, rows[at[-1]] + 1 if causal else n)
            scores = _scores(double(queries[part, at]), some, biases, rivals)
            own = scores[:, np.arange(len(at)), rows[at]]
            _leave_rivals(scores, rows[at], rivals, causal)
            best = scores.argmax(axis=2)
            lead[part, at] = own - np.take_along_axis(scores, best[:, :, None], axis=2)[:, :, 0]
            rival[part, at] = best
    lead[~given], rival[~given] = np.nan, -1


def _scores(queries, keys, bias, rivals: slice) -> Float[np.ndarray, "... k rivals"]:
    """Scores, in float64, of queries (..., k, c) with the keys (..., n, d) in slice `rivals`, with their bias."""
    d = keys.shape[-1]
    scores = queries[..., :d] @ double(keys[..., rivals, :]).swapaxes(-1, -2)
    if bias is not None:
        scores += _factor(queries, d) * bias[..., None, rivals]
    return scores


def _factor(queries: Float[np.ndarray, "... k c"], d: int) -> Float[np.ndarray, "... k 1"] | float:
    return queries[..., d:] if queries.shape[-1] > d else 1.0


def _leave_rivals(scores: Float[np.ndarray, "... k n"], rows: Rows, keys: slice, causal: bool) -> None:
    """Set the scores of keys that are no rivals to minus infinity: a query's own key and, if `causal`, later ones."""
    if causal:
        first = max(rows.min(), keys.start)
        later = scores[..., first - keys.start :]
        np.copyto(later, -np.inf, where=np.arange(first, keys.stop) >= rows[:, None])
    else:
        inside = np.flatnonzero((rows >= keys.start) & (rows < keys.stop))
        scores[..., inside, rows[inside] - keys.start] = -np.inf


def _of_large(keys, bias, rows, queries, causal, given, lead, rival) -> None:
    for a in range(len(keys)):
        asked = np.flatnonzero(given[a])
        if causal:
            lead[a, asked[rows[asked] == 0]] = np.inf
            asked = asked[rows[asked] > 0]
        if len(asked):
            compare = _Comparison(keys[a], None if bias is None else bias[a], rows, queries[a], causal)
            blocks = [asked[part] for part in slices(len(asked), TOGETHER)]
            for at, result in zip(blocks, on_all_cores(compare, blocks), strict=True):
                lead[a, at], rival[a, at] = result


class _Comparison:
    """Computes leads in one large matrix of keys (n, d) with bias (n,), of keys `rows` (k,) by their `queries` (k, c).

    Columns of keys, and the bias, are scaled by powers of two to entries below 1 and centred, which shifts all scores
    of a query alike; queries are scaled accordingly and to length 1. In float32 the product of a key k and a query q of
    c entries is then wrong by at most g |q| |k|, g = (c + 4) u / (1 - (c + 4) u), u = 2^-24, in whatever order it is
    summed (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). One more u is for rounding in
    centring, and one for entries too small for float32. A rival with a score lower than another's by more than twice
    that is not the best.
    """

    def __init__(
        self, keys: np.ndarray, bias: np.ndarray | None, rows: Rows, queries: np.ndarray, causal: bool
    ):
        self.keys, self.bias, self.rows, self.queries, self.causal = keys, bias, rows, queries, causal
        n, kind = len(keys), keys.dtype if bias is None else np.dtype(np.float64)
        largest = double(largest_magnitude(keys, axis=0))
        if bias is not None:
            largest = np.append(largest, largest_magnitude(bias[:, None], axis=0))
        self.exponent = np.frexp(largest)[1].clip(-_RANGE[kind], _RANGE[kind])
        self.scale, self.centre = np.ldexp(1.0, -self.exponent).astype(kind), np.zeros(len(largest), kind)
        tiles = slices(n, _KEYS)
        self.centre += sum(self._scaled(tile).sum(axis=0, dtype=np.float64) for tile in tiles) / n
        squares = (np.einsum("ij,ij->i", some, some) for some in map(double, map(self._scaled, tiles)))
        longest = max(float(square.max()) for square in squares) ** 0.5
        terms = (len(largest) + 6) * _UNIT
        self.slack = 2 * terms / (1 - terms) * longest * (1 + 1e-6)

    def _scaled(self, tile: slice) -> Float[np.ndarray, "k c"]:
        """The keys in slice `tile`, with the bias, if any, as last column, scaled to magnitudes below 1 and centred."""
        some = self.keys[tile]
        if self.bias is not None:
            some = np.column_stack([some, self.bias[tile]])
        some = some * self.scale
        some -= self.centre
        return some

    def __call__(self, at: Rows) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """The leads of the keys `rows[at]`, each of which must have a rival, and the indices of their best rivals."""
        rows, own = self.rows[at], double(self.queries[at])
        tiles = slices(int(rows.max()) + 1 if self.causal else len(self.keys), _KEYS)
        best = self._best_in_float32(own, rows, tiles)
        close = best >= best.max(axis=1, keepdims=True) - self.slack
        lowest, rival = np.full(len(rows), -np.inf), np.zeros(len(rows), np.int64)
        for t in np.flatnonzero(close.any(axis=0)):
            asking = np.flatnonzero(close[:, t])
            scores = _scores(own[asking], self.keys, self.bias, tiles[t])
            _leave_rivals(scores, rows[asking], tiles[t], self.causal)
            at = scores.argmax(axis=1)
            score = scores[np.arange(len(asking)), at]
            better = score > lowest[asking]
            lowest[asking[better]], rival[asking[better]] = score[better], at[better] + tiles[t].start
        d = self.keys.shape[1]
        score = np.einsum("ij,ij->i", own[:, :d], double(self.keys[rows]))
        if self.bias is not None:
            score += np.ravel(_factor(own, d)) * self.bias[rows]
        return np.where(lowest > -np.inf, score - lowest, np.nan), rival

    def _best_in_float32(
        self, queries: Float[np.ndarray, "k c"], rows: Rows, tiles: list[slice]
    ) -> Float[np.ndarray, "k tiles"]:
        """For every query the best score of a rival in each tile of keys, in float32; minus infinity if it has none."""
        if queries.shape[1] < len(self.exponent):
            queries = np.column_stack([queries, np.ones(len(queries))])
        scaled = np.ldexp(queries, self.exponent)
        with np.errstate(invalid="ignore"):  # a query of 0 becomes NaN, which no score is close to
            scaled /= abs(scaled).max(axis=1, keepdims=True)
            scaled /= np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
        low = scaled.astype(np.float32)
        best = np.empty((len(queries), len(tiles)))
        for t, tile in enumerate(tiles):
            scores = low @ self._scaled(tile).astype(np.float32, copy=False).T
            _leave_rivals(scores, rows, tile, self.causal)
            best[:, t] = scores.max(axis=1)
        return best
