"""The search for certificates, compiled: can a query put key i first, or do other keys average to it?

Everything here happens in whitened coordinates (see `coordinates`), where each key is a row w of W (n, r).

A query q puts key i strictly first iff w_i lies outside the convex hull of the other keys, so one looks for the
point of that hull nearest to w_i. If it is w_i itself, the convex weights are the proof that no query exists; if
not, w_i minus the point is a query. Three parts make this fast:

* Wolfe's algorithm (1976) finds the nearest point by walking from one small set of keys, the corral, to the next.
  It asks only "which key is furthest in this direction?", and may stop as soon as a query separates.
* Clarkson's observation (1994): only keys that are vertices of the hull matter. The question is put to the vertices
  known so far, the pool, and to all keys only when the pool is beaten; each such time a new vertex turns up.
* The same once more: of a large pool, the vertices that were furthest when it was last asked are asked first, and the
  pool only when they are beaten.

A bias b_i per key (score q.k_i + b_i) is one more coordinate with the query's component fixed to 1. Any positive
component may be rescaled to 1, so what is new is its sign: key i is unselectable iff it lies in the hull of the
others plus the ray along which the bias decreases. The ray joins the corral as an atom of mass 0.

In a causal search the rivals of key i are the keys before it, those with smaller numbers. Keys are taken in order, and
a key joins the pool after its own turn, so that the pool never holds a later key.

All that `find_certificates` calls stands in this file, because numba looks at no other to see whether what it has
cached is still the code.
"""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import cached_njit, njit

OPEN = 0
"""State of a key about which nothing has been shown."""
SELECTABLE = 1
"""State of a key with a query that puts it first."""
INSIDE = 2
"""State of a key in the hull of the others, where it stays when it is pushed outwards by the tolerance."""
ON_EDGE = 3
"""State of a key in the hull of the others, out of which the push outwards takes it."""

_RAY = -2  # name of the atom that stands for the direction in which the bias decreases
_ZERO = 1e-11  # a distance to the hull that counts as none, in whitened units; the final residuals are far smaller
_MANY = 2048  # vertices from which on the nearest of them are asked first
_PARTS = 2  # the pool is asked for its furthest vertex in each of so many parts for each dimension


class Problem(NamedTuple):
    """One matrix of n keys in r whitened coordinates; the bias, if there is one, is the last coordinate."""

    W: np.ndarray  # (n, r) the keys
    B: np.ndarray  # (r, d) query q of the whitened keys is q B for the keys of the data
    push: np.ndarray  # (n,) how far the tolerance moves a key away from the mean, see `Coordinates`
    raised: np.ndarray  # (n,) and by how much it lifts the bias
    biased: bool
    causal: bool  # only the keys before a key are its rivals
    enough: float  # a query with a margin above this is taken at once


class Found(NamedTuple):
    """What is known of every key; the search fills it in."""

    state: np.ndarray  # (n,) OPEN, SELECTABLE, INSIDE or ON_EDGE
    # (n, r) of a selectable key the query that puts it first, of an open one the best so far
    queries: np.ndarray
    support: np.ndarray  # (n, r + 1) the other keys of which a key in the hull is the weighted mean
    weights: np.ndarray  # (n, r + 1) their weights; 0 where the support is not used


# Sums may be taken in any order (SIMD); NaN and infinity keep their meaning, and none gets here. Always inlined: a
# process that compiles would else run another copy of these functions, with other roundings, than one that loads
# `find_certificates` from numba's cache.
_sums = njit(fastmath={"reassoc", "contract"}, forceinline=True)


@_sums
def _dot(a, b):
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@_sums
def _combine(v, A, m, columns, out):
    """out = v[:m] @ A[:m, :columns], row by row, so that small and large corrals both run at memory speed."""
    for b in range(columns):
        out[b] = 0.0
    for a in range(m):
        factor = v[a]
        for b in range(columns):
            out[b] += factor * A[a, b]


@_sums
def _size(q, B):
    """The largest score that query q can draw from entries as large as the data's: the unit of every margin."""
    entries = np.empty(B.shape[1])
    _combine(q, B, len(q), len(entries), entries)
    total = 0.0
    for c in range(len(entries)):
        total += abs(entries[c])
    return total


@_sums
def _lowest(columns, count, y, skip, scores):
    """argmin and minimum of y . w over the first `count` keys of `columns` (r, capacity), number `skip` left out."""
    _combine(y, columns, len(y), count, scores)
    if skip >= 0:
        scores[skip] = np.inf
    at, low = -1, np.inf
    for j in range(count):
        if scores[j] < low:
            at, low = j, scores[j]
    return at, low


# Wolfe's corral


class Corral(NamedTuple):
    """The atoms whose convex hull is searched, in the first m rows: keys, as seen from the target, or the ray.

    H is the inverse of the Gram matrix G = rows rows' + shift * mass mass', which exists iff the atoms are affinely
    independent. The point of their affine hull nearest to the target has weights proportional to u = H mass.
    """

    names: np.ndarray
    rows: np.ndarray  # w - target, so that rounding is relative to the neighbourhood of the target
    mass: np.ndarray  # 1 for a key, 0 for the ray
    weights: np.ndarray  # of the current point of the hull
    H: np.ndarray
    u: np.ndarray
    g: np.ndarray  # work space
    h: np.ndarray


@njit
def _new_corral(r):
    size = r + 1
    return Corral(
        np.empty(size, np.int64),
        np.empty((size, r)),
        np.empty(size),
        np.empty(size),
        np.empty((size, size)),
        np.empty(size),
        np.empty(size),
        np.empty(size),
    )


@njit
def _add(c, m, name, W, x, shift):
    """Border the inverse of a corral of m atoms by key `name`, or the ray, as seen from x, with weight 0.

    Returns False, and leaves the corral as it is, if the atom is there or depends affinely on those that are.
    """
    if m > len(x):
        return False
    for a in range(m):
        if c.names[a] == name:
            return False  # only rounding can ask for it again
    if name == _RAY:
        mass, row = 0.0, np.zeros(len(x))
        row[-1] = -1.0
    else:
        mass, row = 1.0, W[name] - x
    for a in range(m):
        c.g[a] = _dot(c.rows[a], row) + shift * mass * c.mass[a]
    _combine(c.g, c.H, m, m, c.h)
    own = _dot(row, row) + shift * mass
    pivot = own - _dot(c.g[:m], c.h[:m])
    if not pivot > 1e-14 * own:
        return False
    u = (mass - _dot(c.g[:m], c.u[:m])) / pivot
    for a in range(m):
        factor = c.h[a] / pivot
        for b in range(m):
            c.H[a, b] += factor * c.h[b]
        c.H[a, m] = -factor
        c.H[m, a] = -factor
        c.u[a] -= u * c.h[a]
    c.H[m, m] = 1 / pivot
    c.u[m] = u
    c.rows[m], c.mass[m], c.names[m], c.weights[m] = row, mass, name, 0.0
    return True


@njit
def _drop(c, m, k):
    """Take atom k out of a corral of m atoms; the last atom takes its place."""
    for a in range(m):
        if a != k:
            factor = c.H[a, k] / c.H[k, k]
            for b in range(m):
                # Row k is overwritten below, and column k becomes 0 as it should.
                c.H[a, b] -= factor * c.H[k, b]
            c.u[a] -= factor * c.u[k]
    last = m - 1
    c.H[k, :m] = c.H[last, :m]
    c.H[:m, k] = c.H[:m, last]
    c.names[k], c.mass[k], c.weights[k], c.u[k] = c.names[last], c.mass[last], c.weights[last], c.u[last]
    c.rows[k] = c.rows[last]


@njit
def _rebuild(c, m, W, x, shift):
    """Make the corral anew as seen from x, its inverse from scratch. Returns m, or 0 if the atoms are dependent."""
    for k in range(m):
        weight = c.weights[k]
        if not _add(c, k, c.names[k], W, x, shift):
            return 0
        c.weights[k] = weight
    _sharpen(c, m, shift)
    return m


@njit
def _sharpen(c, m, shift):
    """One step of iterative refinement of G u = mass."""
    r = c.rows.shape[1]
    point = np.empty(r)
    _combine(c.u, c.rows, m, r, point)
    rest = 1 - shift * _dot(c.u[:m], c.mass[:m])
    for a in range(m):
        c.g[a] = rest * c.mass[a] - _dot(c.rows[a], point)
    _combine(c.g, c.H, m, m, c.h)
    for a in range(m):
        c.u[a] += c.h[a]


@njit
def _settle(c, m, y):
    """Wolfe's minor cycle: walk to the nearest point of the affine hull, dropping atoms whose weight turns negative.

    Leaves that point, as seen from the target, in y. Returns the number of atoms left.
    """
    while True:
        total = _dot(c.mass[:m], c.u[:m])
        step, blocking = 1.0, -1
        for k in range(m):
            target = c.u[k] / total
            if target < 0 and c.weights[k] < step * (c.weights[k] - target):
                step, blocking = c.weights[k] / (c.weights[k] - target), k
        for k in range(m):
            c.weights[k] += step * (c.u[k] / total - c.weights[k])
        if blocking < 0:
            break
        _drop(c, m, blocking)
        m -= 1
    _combine(c.weights, c.rows, m, len(y), y)
    return m


# Clarkson's pool


class Pool(NamedTuple):
    """All keys and, for a quicker first answer, those of them known to be vertices of the hull.

    A key is a column: its r coordinates, and half of its squared length, which serves to find a nearest key.
    """

    everything: np.ndarray  # (r + 1, n)
    vertices: np.ndarray  # (r + 1, n), of which the first size[0] columns are used
    names: np.ndarray  # (n,) the key in each column of `vertices`
    place: np.ndarray  # (n,) the column of `vertices` that a key has, or -1
    size: np.ndarray  # (1,)
    spread: float  # no two keys differ by more in the last coordinate; at least 1
    scores: np.ndarray  # (n,) work space


@njit
def _new_pool(W, state, causal):
    """A pool of the selectable keys; empty for a causal search, in which each key joins it after its turn."""
    n, r = W.shape
    everything = np.empty((r + 1, n))
    everything[:r] = W.T
    everything[r] = 0.5 * (everything[:r] ** 2).sum(axis=0)
    pool = Pool(
        everything,
        np.empty((r + 1, n)),
        np.empty(n, np.int64),
        np.full(n, -1),
        np.zeros(1, np.int64),
        max(1.0, 2 * np.max(np.abs(everything[r - 1]))),
        np.empty(n),
    )
    for j in range(n):
        if state[j] == SELECTABLE and not causal:
            _join(pool, j)
    return pool


@njit
def _join(pool, j):
    """Put key j into the pool, once."""
    if pool.place[j] < 0:
        last = pool.size[0]
        pool.vertices[:, last] = pool.everything[:, j]
        pool.names[last] = j
        pool.place[j] = last
        pool.size[0] = last + 1


@njit
def _lowest_vertex(pool, y, i):
    """The key of the pool, but for key i, with the smallest y . w, and that value; -1 and infinity if none is left."""
    at, low = _lowest(pool.vertices, pool.size[0], y, pool.place[i], pool.scores)
    return pool.names[at] if at >= 0 else -1, low


class Near(NamedTuple):
    """Some vertices of a large pool, found in the directions in which a key was last searched.

    Whoever is lowest in a part of the pool joins them; where there is no more room, they begin anew.
    """

    vertices: np.ndarray  # (r + 1, capacity), columns as in the pool
    names: np.ndarray  # (capacity,)
    size: np.ndarray  # (1,)
    scores: np.ndarray  # (capacity,) work space


@njit
def _new_near(r):
    capacity = 8 * _PARTS * (r + 1)
    return Near(
        np.empty((r + 1, capacity)),
        np.empty(capacity, np.int64),
        np.zeros(1, np.int64),
        np.empty(capacity),
    )


@njit
def _ask(pool, near, y, i, level):
    """`_lowest_vertex`, but of a large pool any vertex below `level` will do, as the nearest ones may know."""
    if pool.size[0] < _MANY:
        return _lowest_vertex(pool, y, i)
    at, low = _lowest(near.vertices, near.size[0], y, -1, near.scores)
    if low < level:
        return near.names[at], low
    name, low = _lowest_vertex(pool, y, i)
    _gather(pool, near, level)
    return name, low


@njit
def _gather(pool, near, level):
    """Put among the near vertices the lowest of each part of the pool, by its scores, that is below `level`."""
    parts = _PARTS * len(pool.everything)
    if near.size[0] + parts > len(near.names):
        near.size[0] = 0
    n = pool.size[0]
    for part in range(parts):
        first, stop = part * n // parts, (part + 1) * n // parts
        at = first
        for j in range(first + 1, stop):
            if pool.scores[j] < pool.scores[at]:
                at = j
        if stop > first and pool.scores[at] < level:
            k = near.size[0]
            near.vertices[:, k] = pool.vertices[:, at]
            near.names[k] = pool.names[at]
            near.size[0] = k + 1


@njit
def _lowest_key(pool, y, i, rivals):
    """The key with the smallest y . w, of those with a number below `rivals` but for key i, and that value.

    -1 and infinity if there is none.
    """
    return _lowest(pool.everything, rivals, y, i if i < rivals else -1, pool.scores)


# The search


@njit
def _search(problem, found):
    """Wolfe's algorithm over Clarkson's pool for every open key.

    It walks to the point of the other keys' hull nearest to the target, the key, until a query or a weighted mean is
    found. A key in the hull is first ON_EDGE; the walk goes on towards the key pushed outwards, and if that is in the
    hull as well the key is INSIDE.
    """
    W, state = problem.W, found.state
    n, r = W.shape
    pool, near = _new_pool(W, state, problem.causal), _new_near(r)
    corral = _new_corral(r)
    x, y = np.empty(r), np.empty(r)  # the target, and the corral's nearest point as seen from it
    for i in range(n):
        if state[i] != OPEN:
            if problem.causal and state[i] == SELECTABLE:
                _join(pool, i)
            continue
        rivals = i if problem.causal else n
        x[:] = W[i]
        near.size[0] = 0
        zero = (_ZERO * max(1.0, np.sqrt(_dot(x, x)))) ** 2
        best_margin, shift = -np.inf, 1.0
        m = 0  # atoms in the corral
        changes = 0  # of the corral since its inverse was last sharpened
        for _ in range(50 * (r + 2)):
            if m == 0:
                shift = _begin(corral, x, i, rivals, W, pool)
                m = 1
            before = m
            m = _settle(corral, m, y)
            changes += before - m
            norm = _dot(y, y)
            if norm <= zero:
                if changes > 0:
                    _sharpen(corral, m, shift)
                    changes = 0
                elif state[i] == ON_EDGE:
                    state[i] = INSIDE
                    break
                else:
                    _enter_mean(i, corral, m, found)
                    _push_outwards(problem, i, x)
                    m = _rebuild(corral, m, W, x, shift)
                continue
            level = _dot(y, x)
            # A smaller component of the wrong sign is mended in _try_query, at less than the lead.
            ray_helps = problem.biased and y[-1] > 0.1 * norm / pool.spread
            name, low = _ask(pool, near, y, i, level)
            if low > level and not ray_helps:
                name, low, best_margin = _try_query(i, rivals, x, y, level, best_margin, problem, pool, found)
                if state[i] == SELECTABLE:
                    break
            nearest = low - level >= norm * (1 - 1e-10) and not ray_helps
            added = not nearest and _add(corral, m, _RAY if ray_helps else name, W, x, shift)
            m += added
            changes += added
            if not added and changes == 0:
                if shift >= 1:
                    break
                shift = 1.0  # a last try: rounding may have kept an atom out
            if not added or changes > 64 + 4 * r:
                m = _rebuild(corral, m, W, x, shift)  # rounding in the inverse may be all that is left to do
                changes = 0
        if state[i] == SELECTABLE:
            _join(pool, i)


@njit
def _begin(corral, x, i, rivals, W, pool):
    """Make the key nearest to target x, of the pool if there is one, the corral's only atom. Returns the shift."""
    near = np.ones(len(x) + 1)
    near[:-1] = -x
    name, _ = _lowest_vertex(pool, near, i)
    if name < 0:
        name, _ = _lowest_key(pool, near, i, rivals)
    shift = min(1.0, max(1e-6, ((W[name] - x) ** 2).sum()))
    _add(corral, 0, name, W, x, shift)
    corral.weights[0] = 1.0
    return shift


@njit
def _push_outwards(problem, i, x):
    """Move target x, which is key i, away from the mean of the keys by the tolerance."""
    if problem.causal:
        x -= problem.push[i] * (problem.W[:i].sum(axis=0) / i - problem.W[i])
    else:
        x += problem.push[i] * problem.W[i]
    if problem.biased:
        x[-1] = problem.raised[i]


@njit
def _enter_mean(i, corral, m, found):
    """Enter the corral's current point as the proof that key i is in the hull of the others."""
    found.state[i] = ON_EDGE
    size = 0
    for k in range(m):
        if corral.names[k] != _RAY and corral.weights[k] > 0:
            found.support[i, size], found.weights[i, size] = corral.names[k], corral.weights[k]
            size += 1


@njit
def _try_query(i, rivals, x, y, level, best_margin, problem, pool, found):
    """Put query -y, by which target x of key i beats the pool, to all keys below `rivals`; `level` is y . x.

    If the query puts key i first, it is entered where it is the best so far; if not, the key that comes first joins
    the pool, with a query of its own where it had none. Returns the key with the smallest y . w, that value, and the
    best margin so far.
    """
    name, low = _lowest_key(pool, y, i, rivals)
    q = -y
    if low > level:
        if problem.biased:
            # The bias counts with a positive factor; this one costs at most half of the lead.
            q[-1] = max(q[-1], 0.5 * (low - level) / pool.spread)
            _, low = _lowest_key(pool, -q, i, rivals)
        margin = (_dot(q, x) + low) / _size(q, problem.B)
        if found.state[i] == OPEN and margin > best_margin:
            best_margin = margin
            found.queries[i] = q
            if margin > problem.enough:
                found.state[i] = SELECTABLE
    else:
        _join(pool, name)
        if found.state[name] == OPEN and (not problem.biased or q[-1] > 0):
            _, second = _lowest_key(pool, y, name, name if problem.causal else rivals)
            if second - low > problem.enough * _size(q, problem.B):
                found.state[name] = SELECTABLE
                found.queries[name] = q
    return name, low, best_margin


@cached_njit()
def find_certificates(W, B, push, raised, state, queries, biased, causal, enough):
    """Look for a query or a weighted mean for every open key of m matrices.

    W (m, n, r), B (m, r, d), push, raised (m, n): see `Coordinates`. Fills in state (m, n) and queries (m, n, r), and
    returns support and weights (m, n, r + 1): see `Found`.
    """
    matrices, n, r = W.shape
    support = np.zeros((matrices, n, r + 1), np.int32)
    weights = np.zeros((matrices, n, r + 1))
    for a in range(matrices):
        problem = Problem(W[a], B[a], push[a], raised[a], biased, causal, enough)
        found = Found(state[a], queries[a], support[a], weights[a])
        if np.any(found.state == OPEN):
            _search(problem, found)
    return support, weights
