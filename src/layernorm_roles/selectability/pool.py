"""Known vertices of the keys' convex hull, searched before all keys are (Clarkson 1994); compiled by numba."""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import njit
from layernorm_roles.selectability.sums import combine, sums

_MANY = 2048  # vertices in a pool from which on a `Near` is searched first
_PARTS = 2  # for a `Near` a pool is divided into so many parts for each dimension,
_MOST = 1024  # but into no more than so many parts in all,
_TIMES = 8  # and a `Near` has space for so many vertices of each part


class Pool(NamedTuple):
    """The keys of one matrix, with those among them that are known to be vertices of the keys' convex hull.

    Each column of `everything` and of `vertices` is a key with r coordinates. It has r + 1 entries: the coordinates
    and, as the last entry, half of the key's squared length.
    """

    everything: np.ndarray  # (r + 1, n)
    known: int  # so many keys, the first ones, are vertices, as was known at the start
    vertices: np.ndarray  # (r + 1, n - known) vertices found since, in the first size[0] columns
    names: np.ndarray  # (n - known,) the key in each column of `vertices`
    place: np.ndarray  # (n,) the column of `vertices` that holds a key, or -1
    size: np.ndarray  # (1,) number of columns of `vertices` in use
    spread: float  # a bound, at least 1, on how far two keys differ in the last coordinate
    scores: np.ndarray  # (n,) work space


@njit
def new_pool(everything, known):
    """A `Pool` of n keys, the first `known` of which are known to be vertices of the keys' convex hull."""
    n = everything.shape[1]
    return Pool(
        everything,
        known,
        np.empty((len(everything), n - known)),
        np.empty(n - known, np.int64),
        np.full(n, -1),
        np.zeros(1, np.int64),
        max(1.0, 2 * np.max(np.abs(everything[-2]))),
        np.empty(n),
    )


@sums
def _lowest(columns, count, y, skip, scores):
    """Index and value of the lowest y . w over the first `count` columns w except `skip`; -1 and infinity if none."""
    combine(y, columns, len(y), count, scores)
    if skip >= 0:
        scores[skip] = np.inf
    at, low = -1, np.inf
    for j in range(count):
        if scores[j] < low:
            at, low = j, scores[j]
    return at, low


@njit
def join(pool, j):
    """Add key j to the keys that the `Pool` knows as vertices of the keys' convex hull, in place."""
    if j >= pool.known and pool.place[j] < 0:
        last = pool.size[0]
        pool.vertices[:, last] = pool.everything[:, j]
        pool.names[last] = j
        pool.place[j] = last
        pool.size[0] = last + 1


@njit
def lowest_vertex(pool, y, i):
    """Find the known vertex w of a `Pool`, other than key i, with the lowest scalar product y . w."""
    known = pool.known
    name, low = _lowest(pool.everything, known, y, i if i < known else -1, pool.scores)
    at, least = _lowest(pool.vertices, pool.size[0], y, pool.place[i], pool.scores[known:])
    return (pool.names[at], least) if least < low else (name, low)


class Near(NamedTuple):
    """A cache of vertices w of a large `Pool` with a low y . w in recently searched directions y."""

    vertices: np.ndarray  # (r + 1, capacity), columns as in a `Pool`
    names: np.ndarray  # (capacity,) the key in each column
    size: np.ndarray  # (1,) number of columns in use
    scores: np.ndarray  # (capacity,) work space


@njit
def new_near(r):
    """An empty `Near`, the cache of a `Pool`, for vertices of r coordinates."""
    capacity = _TIMES * min(_PARTS * (r + 1), _MOST)
    return Near(
        np.empty((r + 1, capacity)), np.empty(capacity, np.int64), np.zeros(1, np.int64), np.empty(capacity)
    )


@njit
def ask(pool, near, y, i, level):
    """Find a vertex w of a `Pool`, other than key i, with a low y . w; return its number among all keys and y . w.

    From 2,048 vertices on, the lowest in the cache `near` is returned if its y . w is below `level`; else the lowest of
    all, and some vertices below `level` are added to `near`. Without any vertex the result is -1 and infinity.
    """
    if pool.known + pool.size[0] < _MANY:
        return lowest_vertex(pool, y, i)
    at, low = _lowest(near.vertices, near.size[0], y, -1, near.scores)
    if low < level:
        return near.names[at], low
    name, low = lowest_vertex(pool, y, i)
    _gather(pool, near, level)
    return name, low


@njit
def _gather(pool, near, level):
    """Add to `near` the vertex of lowest `pool.scores` in each of equal parts of the pool, if that is below `level`."""
    parts = len(near.names) // _TIMES
    if near.size[0] + parts > len(near.names):
        near.size[0] = 0
    known = pool.known
    n = known + pool.size[0]
    for part in range(parts):
        first, stop = part * n // parts, (part + 1) * n // parts
        at = first
        for j in range(first + 1, stop):
            if pool.scores[j] < pool.scores[at]:
                at = j
        if stop > first and pool.scores[at] < level:
            k = near.size[0]
            if at < known:
                near.vertices[:, k], near.names[k] = pool.everything[:, at], at
            else:
                near.vertices[:, k], near.names[k] = pool.vertices[:, at - known], pool.names[at - known]
            near.size[0] = k + 1


@njit
def lowest_key(pool, y, i, rivals):
    """Find the key w with the lowest y . w among keys 0 to `rivals` - 1 of a `Pool`, key i left out."""
    return _lowest(pool.everything, rivals, y, i if i < rivals else -1, pool.scores)
