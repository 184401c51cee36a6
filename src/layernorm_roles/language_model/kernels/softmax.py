"""Softmaxes over rows of scores, q.k or h.w: the loops that attention and cross-entropy are made of.

They work on a tile of keys (entries): `exponentials` computes exp(score - shift) for TOGETHER queries (tokens),
`add_means` adds the values weighted by them, `add_outer` adds their outer products to the keys' gradients. Matrices
have one feature a row and one key or token a column, as `columns` makes them, so that the loops run along rows.
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
"""Largest bound on |score| that serves as a softmax's shift: exp(-2 * 40) is still a normal number in float32."""
BLOCKS = (2, 4, 8)
"""Numbers of features that kernels are compiled for; more features are taken as several blocks of the largest."""


def columns(t: Float[Tensor, "*more n d"]) -> Float[Tensor, "*more rows columns"]:
    """The array that the kernels take of a matrix: a position a column, filled up with zeros.

    Rows fill whole blocks of features, and `padded(n)` columns whole vectors. A row takes an odd number of cache lines:
    in rows of 4,096 bytes equal columns of all rows would compete for one place in the first-level cache.
    """
    *more, n, d = t.shape
    block = features(d)
    out = t.new_zeros(*more, -(-d // block) * block, (padded(n) // LANES | 1) * LANES)
    out[..., :d, :n] = t.mT
    return out


def padded(n: int) -> int:
    """The number of columns that the kernels compute for n positions: n rounded up to a multiple of LANES."""
    return -(-n // LANES) * LANES


def features(d: int) -> int:
    """The number of features in a block, for d features: the smallest of BLOCKS that holds them, or the largest."""
    return next((block for block in BLOCKS if block >= d), BLOCKS[-1])


def unrolled(d: int) -> tuple[int, ...]:
    """The argument `block` of the kernels for d features: a tuple of as many numbers as a block has features.

    The length of a tuple belongs to its type, by which numba compiles the loops over a block without a loop.
    """
    return (0,) * features(d)


@inlined
def tile_columns(d):
    """Columns of a tile: `d` rows of them take at most a third of a first-level cache of 48 KB, or 64 columns."""
    return min(512, max(64, 4096 // d // LANES * LANES))


@inlined
def scores(start, q, i, k, j, block):
    """The tuple of start[g] + q_{i+g} . k_j for the vector of columns that begins at j, g over a group of queries."""
    for c in range(0, len(q), len(block)):
        start = add_dots(start, q, i, k, c, j, block)
    return start


@inlined
def exponentials(q, i, k, first, stop, seen, more, start, e, origin, totals, block):
    """Set e[g, j - origin] to exp(start[i + g] + q_{i+g} . k_j) for the columns j from `first` to `stop`.

    The query i sees `seen` columns, each query after it `more` than the one before; beyond them e is 0. All but the
    last vector before `stop` lie within. Their sums are added to the rows of `totals`, by lanes.
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
    """Add the sum of e[g, j - origin] v[c, j] for `first` <= j < `stop`, by lanes, to where `mean_of` finds it."""
    for c in range(0, len(v), 2):
        total = load_tile(sums[c // 2], 0, 0, BOTH)
        for j in range(first, stop, LANES):
            total = add_means_of(total, load_tile(e, 0, j - origin, GROUP), v, c, j, PAIR)
        store_tile(total, sums[c // 2], 0, 0)


@inlined
def mean_of(sums, g, c):
    """The sum over the lanes of what `add_means` has added for query g and feature c."""
    return lane_sum(load(sums[c // 2], 2 * g + c % 2, 0))


@inlined
def add_outer(e, x, i, first, stop, origin, out, block):
    """Add to out[c, j] the sum over the group of e[g, j - origin] x[c, i + g], for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        together = load_tile(e, 0, j - origin, GROUP)
        for c in range(0, len(x), len(block)):
            add_products(together, x, i, out, c, j, block)


@inlined
def largest_score(q, i, k, seen, block):
    """The largest of q_i . k_j over the first `seen` columns j."""
    best = (splat(LEAST),)
    for j in range(0, seen, LANES):
        score = scores((splat(ZERO),), q, i, k, j, block)
        best = maximum(best, first_lanes(score, seen - j, 0, LEAST))
    return lane_maximum(best[0])
