"""Loops of softmaxes over inner products, of which the CPU kernels for attention and cross-entropy consist.

The products are scores of queries and keys, or logits of hidden states and vocabulary entries; names are those of
attention. The loops work on TOGETHER queries and a tile (a range of columns) of keys: `exponentials` takes the
exponentials of shifted scores, `add_means` sums the values weighted by them, `add_outer` adds to the keys' gradients.
Arrays have a row for each feature and a column for each token, so that the loops run along rows.
"""

import numpy as np
from jaxtyping import Float
from torch import Tensor

from layernorm_roles.language_model.kernels import vectors
from layernorm_roles.language_model.kernels.vectors import GROUP, LANES, ZERO, inlined

SAFE_SHIFT = 40.0
"""Largest bound on |score| that is used as the softmax's shift: exp(-2 * 40) is still a normal float32 number."""
LEAST = np.float32(-np.inf)


def columns(t: Float[Tensor, "n d"]) -> Float[Tensor, "rows columns"]:
    """Transpose a matrix of n tokens by d features to the kernels' layout, a row for each feature, padded with zeros.

    There are a multiple of len(unrolled(d)) rows and at least `padded(n)` columns. A row takes an odd number of cache
    lines: if it took 4,096 bytes, elements of one column would evict each other from the first-level cache.
    """
    n, d = t.shape
    block = len(unrolled(d))
    out = t.new_zeros(-(-d // block) * block, (padded(n) // LANES | 1) * LANES)
    out[:d, :n] = t.T
    return out


def padded(n: int) -> int:
    """The number of columns that the kernels compute for n tokens: n rounded up to a multiple of LANES (16)."""
    return -(-n // LANES) * LANES


def unrolled(d: int) -> tuple[int, ...]:
    """A tuple of zeros whose length, 2, 4 or 8, is the number of features that the kernels process together.

    It is the smallest of the three that is at least d, or 8 for larger d. Kernels take it as `block`, because numba
    unrolls a compiled loop by the length of a tuple.
    """
    return (0,) * next(block for block in (2, 4, 8) if block >= min(d, 8))


@inlined
def tile_columns(d):
    """The number of keys that the kernels process together (a tile), for arrays with a row for each of `d` features.

    It is a number from 64 to 512. Within these limits, `d` float32 rows with so many columns fill about a third of a 48
    KB cache.
    """
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def scores(start, q, i, k, j, block):
    """The scores start[g] + q_{i+g} . k of the LANES (16) keys k from column j of `k` on, as a tuple of vectors.

    The tuple has a vector for each member g of the tuple `start`; query i + g is that column of `q`. `block` is
    `unrolled` of the number of features.
    """
    for c in range(0, len(q), len(block)):
        start = vectors.add_dots(start, q, i, k, c, j, block)
    return start


@inlined
def exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j), for queries i + g of a group and keys j of a tile.

    The group has TOGETHER (8) queries, columns of `q`; the tile has the keys `first` <= j < `stop`, columns of `k`.
    Query i sees the first `seen` keys, and each further query `more` keys more than the query before it; for keys that
    a query does not see e is set to 0, but only within the last LANES (16) keys before `stop`. The sums over keys are
    added to the rows of `totals`, split over LANES columns. `block` is `unrolled` of the number of features.
    """
    begun, total = vectors.splats(start, i), vectors.load_tile(totals, 0, GROUP)
    for j in range(first, stop, LANES):
        weights = vectors.exp(scores(begun, q, i, k, j, block))
        if j + LANES == stop:
            weights = vectors.first_lanes(weights, seen - j, more, ZERO)
        total = vectors.plus(total, weights)
        vectors.store_tile(weights, e, j - origin)
    vectors.store_tile(total, totals, 0)


@inlined
def add_means(e, v, first, stop, origin, sums):
    """Add sum_j e[g, j - origin] v[c, j], over keys `first` <= j < `stop`, to `sums`, for each query g and feature c.

    `e` holds the weights of keys for each query, and the columns of `v` are the keys' values. `mean_of` reads a number
    from `sums`.
    """
    for c in range(0, len(v), 2):
        total = vectors.load_tile(sums[c // 2], 0, GROUP + GROUP)
        for j in range(first, stop, LANES):
            total = vectors.add_means_of(total, vectors.load_tile(e, j - origin, GROUP), v, c, j)
        vectors.store_tile(total, sums[c // 2], 0)


@inlined
def mean_of(sums, g, c):
    """The weighted sum of feature c of the values, over keys, that `add_means` has stored in `sums` for query g."""
    return vectors.row_sum(sums[c // 2], 2 * g + c % 2)


@inlined
def add_outer(e, x, i, first, stop, origin, out, block):
    """Add sum_g e[g, j - origin] x[c, i + g], over queries g, to out[c, j], for each feature c and key j.

    The keys are `first` <= j < `stop`, the queries 0 <= g < TOGETHER (8). `block` is `unrolled` of the number of
    features.
    """
    for j in range(first, stop, LANES):
        together = vectors.load_tile(e, j - origin, GROUP)
        for c in range(0, len(x), len(block)):
            vectors.add_products(together, x, i, out, c, j, block)


@inlined
def largest_score(q, i, k, seen, block):
    """The largest inner product of query i with one of the first `seen` keys.

    Queries and keys are the columns of `q` and `k`. `block` is `unrolled` of the number of features.
    """
    best = (vectors.splat(LEAST),)
    for j in range(0, seen, LANES):
        score = scores((vectors.splat(ZERO),), q, i, k, j, block)
        best = vectors.maximum(best, vectors.first_lanes(score, seen - j, 0, LEAST))
    return vectors.lane_maximum(best[0])
