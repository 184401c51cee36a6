"""Clarkson's pool, compiled by numba: known vertices of the keys' convex hull, searched before all keys are."""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import njit
from layernorm_roles.selectability.sums import combine, sums

_MANY = 2048  # vertices from which on the nearest of them are asked first
_PARTS = 2  # the pool is asked for its furthest vertex in each of so many parts for each dimension,
_MOST = 1024  # but in no more than so many parts,
_TIMES = 8  # and the nearest vertices are remembered of so many times


class Pool(NamedTuple):
    """All keys and, for a quicker first answer, those of them known to be vertices of the convex hull.

    A key is a column: its r coordinates, and half of its squared length, which serves to find a nearest key.
    """

    everything: np.ndarray  # (r + 1, n)
    known: int  # so many keys, the first ones, were vertices from the start
    vertices: np.ndarray  # (r + 1, n - known) the others, of which the first size[0] columns are used
    names: np.ndarray  # (n - known,) the key in each column of `vertices`
    place: np.ndarray  # (n,) the column of `vertices` that a key has, or -1
    size: np.ndarray  # (1,)
    spread: float  # no two keys differ by more in the last coordinate; at least 1
    scores: np.ndarray  # (n,) work space


@njit
def new_pool(everything, known):
    """A `Pool` of the keys `everything` (r + 1, n), the first `known` of which are known to be vertices."""
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
    """argmin and minimum of y . w over the first `count` keys of `columns` (r, capacity), number `skip` left out."""
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
    """Put key j, a vertex of the hull of all keys, into the `Pool`, unless it is there already."""
    if j >= pool.known and pool.place[j] < 0:
        last = pool.size[0]
        pool.vertices[:, last] = pool.everything[:, j]
        pool.names[last] = j
        pool.place[j] = last
        pool.size[0] = last + 1


@njit
def lowest_vertex(pool, y, i):
    """The number of the key w with the smallest y . w among a `Pool`'s known vertices, without key i; and that y . w.

    -1 and infinity if no vertex is left.
    """
    known = pool.known
    name, low = _lowest(pool.everything, known, y, i if i < known else -1, pool.scores)
    at, least = _lowest(pool.vertices, pool.size[0], y, pool.place[i], pool.scores[known:])
    return (pool.names[at], least) if least < low else (name, low)


class Near(NamedTuple):
    """A memory of vertices of a large `Pool`: those with the smallest y . w in directions y that were asked for last.

    They are asked first in the next direction. When the memory is full, it is emptied.
    """

    vertices: np.ndarray  # (r + 1, capacity), columns as in the pool
    names: np.ndarray  # (capacity,)
    size: np.ndarray  # (1,)
    scores: np.ndarray  # (capacity,) work space


@njit
def new_near(r):
    """An empty `Near`, the memory of recently lowest vertices, for keys of r coordinates."""
    capacity = _TIMES * min(_PARTS * (r + 1), _MOST)
    return Near(
        np.empty((r + 1, capacity)), np.empty(capacity, np.int64), np.zeros(1, np.int64), np.empty(capacity)
    )


@njit
def ask(pool, near, y, i, level):
    """Find a vertex w with y . w below `level` among those in `near`, or the lowest in the `Pool` except key i.

    Returns the key's number and y . w, as `lowest_vertex`. A vertex from the pool may be above `level`. A small pool is
    asked at once, without `near`.
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
    """Put among the near vertices the lowest of each part of the pool, by its scores, that is below `level`."""
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
    """The number of the key w with the smallest y . w, of the keys 0 to `rivals` - 1 but for key i, and that y . w.

    -1 and infinity if there is none.
    """
    return _lowest(pool.everything, rivals, y, i if i < rivals else -1, pool.scores)
