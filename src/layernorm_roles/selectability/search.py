"""The search for certificates, compiled: can a query put key i first, or do other keys average to it?

Everything here happens in whitened coordinates (see `certify`), where each key is a row w of W (n, r).

A query q puts key i strictly first iff w_i lies outside the convex hull of the other keys, so one looks for the
point of that hull nearest to w_i. If it is w_i itself, the convex weights are the proof that no query exists; if
not, w_i minus the point is a query. Three well-known parts make this fast:

* Wolfe's algorithm (1976) finds the nearest point by walking from one small set of keys, the corral, to the next.
  It asks only "which key is furthest in this direction?", and may stop as soon as a query separates.
* Clarkson's observation (1994): only keys that are vertices of the hull matter. The question is put to the vertices
  known so far, the pool, and to all keys only when the pool is beaten; each such time a new vertex turns up.
* Most vertices need no search: their own direction puts them first. In many dimensions, repeatedly reflecting the
  query over the bisector with the key that beats it (braid reflect; Demeter et al. 2020, Grivas et al. 2022) finds
  a query for most of the rest.

A bias b_i per key (score q.k_i + b_i) is one more coordinate with the query's component fixed to 1. Any positive
component may be rescaled to 1, so what is new is its sign: key i is unselectable iff it lies in the hull of the
others plus the ray along which the bias decreases. The ray joins the corral as an atom of mass 0.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

OPEN, SELECTABLE, INSIDE = 0, 1, 2  # INSIDE: in the hull, with room for a push outwards
ON_EDGE = 3  # in the hull, but the push takes it out

_RAY = -2
_ZERO = 1e-11  # a distance to the hull that counts as none, in whitened units; the final residuals are far smaller
_BLOCK = 64  # queries scored at once
REFLECT = 32  # dimensions from which braid reflect saves more searches than it costs


@njit
def beaten_by(W, Q, who, other, gap):
    """For each query Q[k], meant for key who[k]: its best rival `other` and the lead `gap` over it (filled in)."""
    n = len(W)
    for start in range(0, len(who), _BLOCK):
        stop = min(start + _BLOCK, len(who))
        scores = np.dot(
            W, np.ascontiguousarray(Q[start:stop].T)
        )  # (n, block): the loop below runs along a row
        own = np.empty(stop - start)
        best = np.full(stop - start, -np.inf)
        at = np.zeros(stop - start, np.int64)
        for k in range(stop - start):
            own[k] = scores[who[start + k], k]
            scores[who[start + k], k] = -np.inf
        for j in range(n):
            for k in range(stop - start):
                if scores[j, k] > best[k]:
                    best[k] = scores[j, k]
                    at[k] = j
        for k in range(stop - start):
            gap[start + k] = own[k] - best[k]
            other[start + k] = at[k]


@njit
def _accept(Q, who, gap, B, biased, enough, verdict, queries):
    """Enter the queries whose margin is above `enough`; how many there were."""
    found = 0
    for k in range(len(who)):
        i = who[k]
        if verdict[i] == OPEN and gap[k] > 0 and (not biased or Q[k, -1] > 0):
            if gap[k] > enough * _size(Q[k], B):
                verdict[i] = SELECTABLE
                queries[i] = Q[k]
                found += 1
    return found


@njit
def by_direction(W, Q, B, biased, enough, verdict, queries):
    """Try query Q[i] for every open key i."""
    who = np.flatnonzero(verdict == OPEN)
    other, gap = np.empty(len(who), np.int64), np.empty(len(who))
    chosen = Q[who]
    beaten_by(W, chosen, who, other, gap)
    _accept(chosen, who, gap, B, biased, enough, verdict, queries)


@njit
def by_reflection(W, B, biased, enough, verdict, queries):
    """Braid reflect, for all open keys at once, for as long as a round costs less than the searches it saves."""
    r = W.shape[1]
    who = np.flatnonzero(verdict == OPEN)
    Q = W[who]
    lean = 0
    for _ in range(r):
        m = len(who)
        if m == 0:
            return
        other, gap = np.empty(m, np.int64), np.empty(m)
        beaten_by(W, Q, who, other, gap)
        found = _accept(Q, who, gap, B, biased, enough, verdict, queries)
        lean += 2 * r * found < m  # a search costs about as much as 2 r tries
        if lean > 5:
            return
        left = np.flatnonzero(verdict[who] == OPEN)
        who, other, gap, Q = who[left], other[left], gap[left], Q[left]
        for k in range(len(who)):
            bisector = W[who[k]] - W[other[k]]
            length = np.dot(bisector, bisector)
            if length > 0:
                Q[k] -= (2 * gap[k] / length) * bisector


# Sums may be taken in any order (SIMD); NaN and infinity keep their meaning, and none gets here. Always inlined: a
# process that compiles would else run another copy of these functions, with other roundings, than one that loads
# `decide` from numba's cache.
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
def _add(c, m, row, mass, name, shift):
    """Border the corral's inverse by one atom of weight 0. False if it depends affinely on the others."""
    if m > len(row):
        return False
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
    """Take atom k out; the last atom takes its place."""
    for a in range(m):
        if a != k:
            factor = c.H[a, k] / c.H[k, k]
            for b in range(m):
                c.H[a, b] -= (
                    factor * c.H[k, b]
                )  # row k is overwritten below, and column k becomes 0 as it should
            c.u[a] -= factor * c.u[k]
    last = m - 1
    c.H[k, :m] = c.H[last, :m]
    c.H[:m, k] = c.H[:m, last]
    c.names[k], c.mass[k], c.weights[k], c.u[k] = c.names[last], c.mass[last], c.weights[last], c.u[last]
    c.rows[k] = c.rows[last]


@njit
def _rebuild(c, m, W, x, shift):
    """The corral as seen from x, its inverse from scratch. Returns m, or 0 if the atoms are dependent."""
    row = np.empty(len(x))
    for k in range(m):
        row[:] = c.rows[k]
        if c.names[k] != _RAY:
            row[:] = W[c.names[k]] - x
        weight = c.weights[k]
        if not _add(c, k, row, c.mass[k], c.names[k], shift):
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
    """Wolfe's minor cycle: towards the nearest point of the affine hull, dropping what turns negative.

    Leaves that point, as seen from the target, in y; returns the corral's size.
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


@njit
def by_search(W, B, biased, enough, outward, verdict, queries, support, weights):
    """Wolfe's algorithm over Clarkson's pool for every open key.

    A key counts as INSIDE only if outward[i], a little further out, is in the hull of the other keys as well, and
    as ON_EDGE if only w_i is. Fills queries (n, r) and support, weights (n, r + 1): what proves each verdict, or,
    for a key that stays OPEN, the best query found.
    """
    n, r = W.shape
    everything = np.empty(
        (r + 1, n)
    )  # the last row, half of the squared lengths, serves to find a nearest key
    everything[:r] = W.T
    everything[r] = 0.5 * (everything[:r] ** 2).sum(axis=0)
    scores = np.empty(n)
    spread = max(1.0, 2 * np.max(np.abs(everything[r - 1])))
    pool = np.empty((r + 1, n))
    names_in_pool = np.empty(n, np.int64)
    place = np.full(n, -1)
    pooled = 0
    for j in range(n):
        if verdict[j] == SELECTABLE:
            pooled = _join(j, everything, pool, names_in_pool, place, pooled)
    x, y, q, near = np.empty(r), np.empty(r), np.empty(r), np.ones(r + 1)
    ray = np.zeros(r)
    ray[-1] = -1.0
    corral = _new_corral(r)

    for i in range(n):
        if verdict[i] != OPEN:
            continue
        x[:] = W[i]
        zero = (_ZERO * max(1.0, np.sqrt(_dot(x, x)))) ** 2
        best_margin = -np.inf
        m = 0
        changes = 0  # of the corral since its inverse was last sharpened
        for _ in range(50 * (r + 2)):
            if m == 0:
                near[:r] = -x
                at, _ = _lowest(pool, pooled, near, place[i], scores)
                name = names_in_pool[at]
                if at < 0:
                    name, _ = _lowest(everything, n, near, i, scores)
                shift = min(1.0, max(1e-6, ((W[name] - x) ** 2).sum()))
                _add(corral, 0, W[name] - x, 1.0, name, shift)
                corral.weights[0] = 1.0
                m = 1
            before = m
            m = _settle(corral, m, y)
            changes += before - m
            norm = _dot(y, y)
            if norm <= zero:
                if changes > 0:
                    _sharpen(corral, m, shift)
                    changes = 0
                elif verdict[i] == ON_EDGE:
                    verdict[i] = INSIDE
                    break
                else:
                    verdict[i] = ON_EDGE
                    size = 0
                    for k in range(m):
                        if corral.names[k] != _RAY and corral.weights[k] > 0:
                            support[i, size], weights[i, size] = corral.names[k], corral.weights[k]
                            size += 1
                    x[:] = outward[i]
                    m = _rebuild(corral, m, W, x, shift)
                continue
            level = _dot(y, x)
            # A little of the wrong sign is mended below, at less than the lead.
            ray_helps = biased and y[-1] > 0.1 * norm / spread
            at, low = _lowest(pool, pooled, y, place[i], scores)
            name = names_in_pool[at]
            if low > level and not ray_helps:
                # The query -y beats the pool. Does it beat everyone?
                name, low = _lowest(everything, n, y, i, scores)
                q[:] = -y
                if low > level:
                    if biased:
                        # The bias counts with a positive factor; this one costs at most half of the lead.
                        q[-1] = max(q[-1], 0.5 * (low - level) / spread)
                        _, low = _lowest(everything, n, -q, i, scores)
                    margin = (_dot(q, x) + low) / _size(q, B)
                    if verdict[i] == OPEN and margin > best_margin:
                        best_margin = margin
                        queries[i] = q
                        if margin > enough:
                            verdict[i] = SELECTABLE
                            break
                else:
                    pooled = _join(name, everything, pool, names_in_pool, place, pooled)
                    if verdict[name] == OPEN and (not biased or q[-1] > 0):
                        # Whoever wins alone has a certificate too.
                        lead = -low
                        _, low = _lowest(everything, n, y, name, scores)
                        if lead + low > enough * _size(q, B):
                            verdict[name] = SELECTABLE
                            queries[name] = q
                        low = -lead
            finished = low - level >= norm * (1 - 1e-10) and not ray_helps
            if not finished:
                if ray_helps:
                    name = _RAY
                if np.any(corral.names[:m] == name):
                    added = False  # only rounding can ask for it again
                elif ray_helps:
                    added = _add(corral, m, ray, 0.0, _RAY, shift)
                else:
                    added = _add(corral, m, W[name] - x, 1.0, name, shift)
                m += added
                changes += added
                finished = not added
            if finished and changes == 0:
                if shift >= 1:
                    break
                shift = 1.0  # a last try: rounding may have kept an atom out
            if finished or changes > 64 + 4 * r:
                m = _rebuild(corral, m, W, x, shift)  # rounding in the inverse may be all that is left to do
                changes = 0
        if verdict[i] == SELECTABLE:
            pooled = _join(i, everything, pool, names_in_pool, place, pooled)


@njit
def _join(j, everything, pool, names, place, pooled):
    """Put key j into the pool, once; the pool's new size."""
    if place[j] >= 0:
        return pooled
    pool[:, pooled] = everything[:, j]
    names[pooled] = j
    place[j] = pooled
    return pooled + 1


@njit
def twins(bits):
    """For each row of bits (n, d) of uint64 another row equal to it, or -1."""
    n, d = bits.shape
    hashes = np.empty(n, np.uint64)
    for i in range(n):
        value = np.uint64(14695981039346656037)  # FNV-1a, on words
        for c in range(d):
            value = (value ^ bits[i, c]) * np.uint64(1099511628211)
            value ^= value >> np.uint64(29)
        hashes[i] = value
    order = np.argsort(hashes)
    twin = np.full(n, -1)
    start = 0
    for stop in range(1, n + 1):
        if stop < n and hashes[order[stop]] == hashes[order[start]]:
            continue
        for a in range(start, stop):
            for b in range(start, stop):
                if a != b and np.all(bits[order[a]] == bits[order[b]]):
                    twin[order[a]] = order[b]
                    break
        start = stop
    return twin


@njit(cache=True)
def decide(W, B, outward, directions, bits, biased, enough):
    """All of the above for a stack of matrices W (m, n, r).

    Returns state, queries, support, weights and twins, each with the axes (m, n, ...).
    """
    matrices, n, r = W.shape
    state = np.zeros((matrices, n), np.int8)
    queries = np.zeros((matrices, n, r))
    support = np.zeros((matrices, n, r + 1), np.int32)
    weights = np.zeros((matrices, n, r + 1))
    twin = np.empty((matrices, n), np.int64)
    for a in range(matrices):
        twin[a] = twins(bits[a])
        for i in range(n):
            if twin[a, i] >= 0:
                state[a, i], support[a, i, 0], weights[a, i, 0] = INSIDE, twin[a, i], 1.0
        for k in range(len(directions)):
            by_direction(W[a], directions[k, a], B[a], biased, enough, state[a], queries[a])
        if r >= REFLECT:
            by_reflection(W[a], B[a], biased, enough, state[a], queries[a])
        by_search(W[a], B[a], biased, enough, outward[a], state[a], queries[a], support[a], weights[a])
    return state, queries, support, weights, twin
