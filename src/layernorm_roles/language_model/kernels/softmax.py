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
    """The transpose of a matrix with n tokens (rows) and d features, padded with zeros as the CPU kernels need it.

    The result has at least d rows, a multiple of len(unrolled(d)). It has at least `padded(n)` columns, an odd multiple
    of 16, so that the elements of one column do not evict each other from the processor's cache.
    """
    n, d = t.shape
    block = len(unrolled(d))
    out = t.new_zeros(-(-d // block) * block, (padded(n) // LANES | 1) * LANES)
    out[:d, :n] = t.T
    return out


def padded(n: int) -> int:
    """The number of columns that the kernels compute for n tokens: n rounded up to a multiple of 16."""
    return -(-n // LANES) * LANES


def unrolled(d: int) -> tuple[int, ...]:
    """A tuple of zeros whose length, 2, 4 or 8, is the number of dimensions that the kernels process together.

    The length is the smallest of these numbers that is at least d, or 8 for larger d. Kernels take the tuple as
    argument `block`: numba can unroll a loop over it, because a tuple's length is known when a kernel is compiled.
    """
    return (0,) * next(block for block in (2, 4, 8) if block >= min(d, 8))


@inlined
def tile_columns(d):
    """The number of keys that the kernels process together, from 64 to 512, for keys of `d` dimensions.

    Within these limits, so many float32 keys fill about a third of a 48 KB cache.
    """
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def scores(start, q, i, k, j, block):
    """The scores of a few queries for 16 keys, plus given numbers, as a tuple with a SIMD vector for each query.

    Vector g is start[g], itself a vector, plus the inner products of query i + g, a column of `q`, and 16 keys, the
    columns of `k` from j on. `block` is `unrolled(len(q))`.
    """
    for c in range(0, len(q), len(block)):
        start = vectors.add_dots(start, q, i, k, c, j, block)
    return start


@inlined
def exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j), for 8 queries i + g and a range of keys j.

    Query i + g, where 0 <= g < 8, is a column of `q`, key j, where `first` <= j < `stop`, a column of `k`. Query i + g
    sees the keys below seen + g * more; e is set to 0 for the others, but only within the last 16 keys before `stop`.
    The sum of row g of totals (8, 16) increases by the sum of e over the keys. `block` is `unrolled(len(q))`.
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
    """Add each query's weighted sum of values, over a range of keys, to the array `sums`.

    For query g, from 0 to 7, and dimension c it is the sum of e[g, j - origin] v[c, j] over keys `first` <= j < `stop`.
    `mean_of(sums, g, c)` reads what has been added up.
    """
    for c in range(0, len(v), 2):
        total = vectors.load_tile(sums[c // 2], 0, GROUP + GROUP)
        for j in range(first, stop, LANES):
            total = vectors.add_means_of(total, vectors.load_tile(e, j - origin, GROUP), v, c, j)
        vectors.store_tile(total, sums[c // 2], 0)


@inlined
def mean_of(sums, g, c):
    """The weighted sum of values that `add_means` has added up in `sums`, for query g (0 to 7) and dimension c."""
    return vectors.row_sum(sums[c // 2], 2 * g + c % 2)


@inlined
def add_outer(e, x, i, first, stop, origin, out, block):
    """Add the sum over 8 queries g of e[g, j - origin] x[c, i + g] to out[c, j], for each row c and each key j.

    The queries are 0 <= g < 8, the keys `first` <= j < `stop`. `block` is `unrolled(len(x))`.
    """
    for j in range(first, stop, LANES):
        together = vectors.load_tile(e, j - origin, GROUP)
        for c in range(0, len(x), len(block)):
            vectors.add_products(together, x, i, out, c, j, block)


@inlined
def largest_score(q, i, k, seen, block):
    """The largest inner product of query i with any of the first `seen` keys.

    Queries are the columns of `q`, keys the columns of `k`. `block` is `unrolled(len(q))`.
    """
    best = (vectors.splat(LEAST),)
    for j in range(0, seen, LANES):
        score = scores((vectors.splat(ZERO),), q, i, k, j, block)
        best = vectors.maximum(best, vectors.first_lanes(score, seen - j, 0, LEAST))
    return vectors.lane_maximum(best[0])
