"""Loops of softmaxes over inner products, of which the CPU kernels for attention and cross-entropy consist.

The products are scores of queries and keys, or logits of hidden states and vocabulary entries; names are those of
attention. The loops work on TOGETHER queries and a tile (a range of columns) of keys: `exponentials` takes the
exponentials of shifted scores, `add_means` sums the values weighted by them, `add_outer` adds to the keys' gradients.
Arrays have a row for each feature and a column for each token, so that the loops run along rows.
"""

from jaxtyping import Float
from torch import Tensor

from layernorm_roles.language_model.kernels.vectors import (
    BOTH,
    GROUP,
    LANES,
    LEAST,
    PAIR,
    ZERO,
    add_dots,
    add_means_of,
    add_products,
    exp,
    first_lanes,
    inlined,
    lane_maximum,
    lane_sum,
    load,
    load_tile,
    maximum,
    plus,
    splat,
    splats,
    store_tile,
)

SAFE_SHIFT = 40.0
"""Largest bound on |score| that is used as the softmax's shift: exp(-2 * 40) is still a normal float32 number."""
BLOCKS = (2, 4, 8)
"""The possible sizes of a block, the number of features over which a compiled loop is unrolled."""


def columns(t: Float[Tensor, "*more n d"]) -> Float[Tensor, "*more rows columns"]:
    """Transpose matrices of n tokens by d features to the kernels' layout, a row for each feature, padded with zeros.

    Rows are padded to whole blocks (see `features`), columns to at least `padded(n)`. A row takes an odd number of
    cache lines: in rows of 4,096 bytes, elements of one column would evict each other from the first-level cache.
    """
    *more, n, d = t.shape
    block = features(d)
    out = t.new_zeros(*more, -(-d // block) * block, (padded(n) // LANES | 1) * LANES)
    out[..., :d, :n] = t.mT
    return out


def padded(n: int) -> int:
    """The number of columns that the kernels compute for n tokens: n rounded up to a multiple of LANES."""
    return -(-n // LANES) * LANES


def features(d: int) -> int:
    """The number of features in a block, for vectors of d features: the smallest of BLOCKS that is at least d, or 8."""
    return next((block for block in BLOCKS if block >= d), BLOCKS[-1])


def unrolled(d: int) -> tuple[int, ...]:
    """A tuple of as many zeros as a block has features, for d features: numba unrolls loops by a tuple's length."""
    return (0,) * features(d)


@inlined
def tile_columns(d):
    """The number of keys in a tile: as many as let `d` rows fill a third of a 48 KB cache, from 64 up to 512."""
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def scores(start, q, i, k, j, block):
    """The scores start[g] + q_{i+g} . k of the LANES keys k from column j on, as a tuple of one vector for each query.

    g counts the members of `start`; column i + g of `q` is the query, and the columns of `k` are the keys.
    """
    for c in range(0, len(q), len(block)):
        start = add_dots(start, q, i, k, c, j, block)
    return start


@inlined
def exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j) for g < TOGETHER and keys `first` <= j < `stop`.

    Query i sees the first `seen` keys, and each further query `more` keys more than the query before it; for other keys
    e is set to 0, but only within the last LANES keys before `stop`. The sums over keys are added to the rows of
    `totals`, split over its LANES columns.
    """
    begun, total = splats(start, i, GROUP), load_tile(totals, 0, 0, GROUP)
    for j in range(first, stop, LANES):
        weights = exp(scores(begun, q, i, k, j, block))
        if j + LANES == stop:
            weights = first_lanes(weights, seen - j, more, ZERO)
        total = plus(total, weights)
        store_tile(weights, e, 0, j - origin)
    store_tile(total, totals, 0, 0)


@inlined
def add_means(e, v, first, stop, origin, sums):
    """Add to `sums`, for each query g and feature c, the sum of e[g, j - origin] v[c, j] over `first` <= j < `stop`."""
    for c in range(0, len(v), 2):
        total = load_tile(sums[c // 2], 0, 0, BOTH)
        for j in range(first, stop, LANES):
            total = add_means_of(total, load_tile(e, 0, j - origin, GROUP), v, c, j, PAIR)
        store_tile(total, sums[c // 2], 0, 0)


@inlined
def mean_of(sums, g, c):
    """The sum over keys, for query g and feature c, that `add_means` has stored in `sums`."""
    return lane_sum(load(sums[c // 2], 2 * g + c % 2, 0))


@inlined
def add_outer(e, x, i, first, stop, origin, out, block):
    """Add to out[c, j] the products e[g, j - origin] x[c, i + g], summed over queries g, for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        together = load_tile(e, 0, j - origin, GROUP)
        for c in range(0, len(x), len(block)):
            add_products(together, x, i, out, c, j, block)


@inlined
def largest_score(q, i, k, seen, block):
    """The largest score of query i, column i of `q`, with the first `seen` keys, the columns of `k`."""
    best = (splat(LEAST),)
    for j in range(0, seen, LANES):
        score = scores((splat(ZERO),), q, i, k, j, block)
        best = maximum(best, first_lanes(score, seen - j, 0, LEAST))
    return lane_maximum(best[0])
