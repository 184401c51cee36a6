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

import numpy as np
from numba import njit

OPEN, SELECTABLE, INSIDE = 0, 1, 2  # INSIDE: in the hull, with room for a push outwards
ON_EDGE = 3  # in the hull, but the push takes it out

_RAY = -2
_ZERO = 1e-11  # a distance to the hull that counts as none, in whitened units; the final residuals are far smaller
_BLOCK = 64  # queries scored at once
REFLECT = 32  # dimensions from which braid reflect saves more searches than it costs


@njit(cache=True)
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


@njit(cache=True)
def _size(q, B):
    """The largest score that query q can draw from entries as large as the data's: the unit of every margin."""
    total = 0.0
    for c in range(B.shape[1]):
        value = 0.0
        for k in range(len(q)):
            value += q[k] * B[k, c]
        total += abs(value)
    return total


@njit(cache=True)
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


@njit(cache=True)
def by_direction(W, Q, B, biased, enough, verdict, queries):
    """Try query Q[i] for every open key i."""
    who = np.flatnonzero(verdict == OPEN)
    other, gap = np.empty(len(who), np.int64), np.empty(len(who))
    chosen = Q[who]
    beaten_by(W, chosen, who, other, gap)
    _accept(chosen, who, gap, B, biased, enough, verdict, queries)


@njit(cache=True)
def by_reflection(W, B, biased, enough, verdict, queries):
    """Braid reflect, for all open keys at once, for as long as a round costs less than the searches it saves."""
    r = W.shape[1]
    who = np.flatnonzero(verdict == OPEN)
    Q = W[who]
    for _ in range(r):
        m = len(who)
        if m == 0:
            return
        other, gap = np.empty(m, np.int64), np.empty(m)
        beaten_by(W, Q, who, other, gap)
        found = _accept(Q, who, gap, B, biased, enough, verdict, queries)
        if found * r < m:
            return
        left = np.flatnonzero(verdict[who] == OPEN)
        who, other, gap, Q = who[left], other[left], gap[left], Q[left]
        for k in range(len(who)):
            bisector = W[who[k]] - W[other[k]]
            length = np.dot(bisector, bisector)
            if length > 0:
                Q[k] -= (2 * gap[k] / length) * bisector


# Sums may be taken in any order (SIMD); NaN and infinity keep their meaning, and none gets here.
_sums = njit(cache=True, fastmath={"reassoc", "contract"})


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


@_sums
def _add(m, row, mass, name, names, rows, masses, H, weights, g, h):
    """Border H, the inverse of w.w' + r mass mass', by one atom. False if it depends affinely on the others."""
    r = rows.shape[1]
    for a in range(m):
        g[a] = _dot(rows[a], row) + r * mass * masses[a]
    _combine(g, H, m, m, h)
    own = _dot(row, row) + r * mass
    pivot = own - _dot(g[:m], h[:m])
    if not pivot > 1e-14 * own:
        return False
    for a in range(m):
        factor = h[a] / pivot
        for b in range(m):
            H[a, b] += factor * h[b]
        H[a, m] = -factor
        H[m, a] = -factor
    H[m, m] = 1 / pivot
    rows[m], masses[m], names[m], weights[m] = row, mass, name, 0.0
    return True


@_sums
def _rebuild(m, names, rows, masses, H, weights, g, h):
    """H from scratch, against accumulated rounding. Returns m, or 0 if the atoms are no longer independent."""
    for k in range(m):
        weight = weights[k]
        if not _add(k, rows[k], masses[k], names[k], names, rows, masses, H, weights, g, h):
            return 0
        weights[k] = weight
    return m


@_sums
def _drop(m, k, names, rows, masses, H, weights):
    """Take atom k out; the last atom takes its place. H stays the inverse."""
    last = m - 1
    for a in range(m):
        if a != k:
            factor = H[a, k] / H[k, k]
            for b in range(m):
                H[a, b] -= factor * H[k, b]  # row k is overwritten below, and column k becomes 0 as it should
    H[k, :m] = H[last, :m]
    H[:m, k] = H[:m, last]
    names[k], masses[k], weights[k] = names[last], masses[last], weights[last]
    rows[k] = rows[last]


@_sums
def _affine(m, x, rows, masses, H, target, g, h, one, point):
    """Weights (into `target`) of the point nearest to x in the affine hull of the corral, refined once."""
    r = rows.shape[1]
    _combine(masses, H, m, m, one)
    scale = _dot(masses[:m], one[:m])
    for a in range(m):
        g[a] = _dot(rows[a], x)
        target[a] = 0.0
    for _ in range(2):
        _combine(g, H, m, m, h)
        missing = 1.0
        for a in range(m):
            target[a] += h[a]
            missing -= masses[a] * target[a]
        for a in range(m):
            target[a] += missing / scale * one[a]
        _combine(target, rows, m, r, point)
        for k in range(r):
            point[k] = x[k] - point[k]
        for a in range(m):
            g[a] = _dot(rows[a], point)


@_sums
def _settle(m, x, names, rows, masses, H, weights, target, g, h, one, y):
    """Wolfe's minor cycle: towards the nearest point of the affine hull, dropping what turns negative.

    Leaves that point minus x in y; returns the corral's size.
    """
    while True:
        _affine(m, x, rows, masses, H, target, g, h, one, y)
        step, blocking = 1.0, -1
        for k in range(m):
            if target[k] < 0 and weights[k] < step * (weights[k] - target[k]):
                step, blocking = weights[k] / (weights[k] - target[k]), k
        for k in range(m):
            weights[k] += step * (target[k] - weights[k])
        if blocking < 0:
            for k in range(len(y)):
                y[k] = -y[k]
            return m
        _drop(m, blocking, names, rows, masses, H, weights)
        m -= 1


@njit(cache=True)
def by_search(W, B, biased, enough, outward, verdict, queries, support, weights_out):
    """Wolfe's algorithm over Clarkson's pool for every open key.

    A key counts as INSIDE only if outward[i], a little further out, is in the hull of the other keys as well, and
    as ON_EDGE if only w_i is. Fills queries (n, r) and support, weights_out (n, r + 1): what proves each verdict, or,
    for a key that stays OPEN, the best query found.
    """
    n, r = W.shape
    everything = np.ascontiguousarray(W.T)
    scores = np.empty(n)
    spread = max(1.0, 2 * np.max(np.abs(everything[-1])))
    pool = np.empty((r, n))
    names_in_pool = np.empty(n, np.int64)
    place = np.full(n, -1)
    pooled = 0
    for j in range(n):
        if verdict[j] == SELECTABLE:
            pooled = _join(j, W, pool, names_in_pool, place, pooled)

    capacity = r + 2
    names = np.empty(capacity, np.int64)
    rows, masses, weights = np.empty((capacity, r)), np.empty(capacity), np.empty(capacity)
    H, target = np.empty((capacity, capacity)), np.empty(capacity)
    g, h, one, q, y = np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(r), np.empty(r)
    ray = np.zeros(r)
    ray[-1] = -1.0
    m, since = 0, 0

    for i in range(n):
        if verdict[i] != OPEN:
            continue
        # The corral of the key before is a good start: its inverse does not depend on the key.
        for k in range(m):
            if names[k] == i:
                m = 0
                break
        x = W[i].copy()
        length = np.sqrt(_dot(x, x))
        best_margin = -np.inf
        for _ in range(50 * (r + 2)):
            if m == 0:
                y[:] = -x  # as if the nearest point were the mean of all keys
                norm = np.inf
            else:
                if since > 64 + 4 * r:
                    m = _rebuild(m, names, rows, masses, H, weights, g, h)
                    since = 0
                    if m == 0:
                        continue
                m = _settle(m, x, names, rows, masses, H, weights, target, g, h, one, y)
                norm = _dot(y, y)
                if norm <= (_ZERO * max(1.0, length)) ** 2:
                    if verdict[i] == ON_EDGE:
                        verdict[i] = INSIDE
                        break
                    verdict[i] = ON_EDGE
                    size = 0
                    for k in range(m):
                        if names[k] != _RAY and weights[k] > 0:
                            support[i, size], weights_out[i, size] = names[k], weights[k]
                            size += 1
                    x[:] = outward[i]
                    continue
            level = _dot(y, x)
            ray_helps = biased and m > 0 and y[-1] > 1e-12 * np.sqrt(norm)
            at, low = _lowest(pool, pooled, y, place[i], scores)
            name = names_in_pool[at]
            if low > level and not ray_helps:
                # The query -y beats the pool. Does it beat everyone?
                name, low = _lowest(everything, n, y, i, scores)
                q[:] = -y
                if low > level:
                    if verdict[i] == ON_EDGE:
                        break
                    if biased:
                        # The bias counts with a positive factor; this one costs at most half of the lead.
                        q[-1] = max(q[-1], 0.5 * (low - level) / spread)
                        _, low = _lowest(everything, n, -q, i, scores)
                    margin = (_dot(q, x) + low) / _size(q, B)
                    if margin > best_margin:
                        best_margin = margin
                        queries[i] = q
                    if margin > enough:
                        verdict[i] = SELECTABLE
                        break
                else:
                    pooled = _join(name, W, pool, names_in_pool, place, pooled)
                    if verdict[name] == OPEN and (not biased or q[-1] > 0):
                        # Whoever wins alone has a certificate too.
                        lead = -low
                        _, low = _lowest(everything, n, y, name, scores)
                        if lead + low > enough * _size(q, B):
                            verdict[name] = SELECTABLE
                            queries[name] = q
                        low = -lead
            if m > 0 and low - level >= norm * (1 - 1e-10) and not ray_helps:
                break
            if ray_helps:
                added = _add(m, ray, 0.0, _RAY, names, rows, masses, H, weights, g, h)
            else:
                added = _add(m, W[name], 1.0, name, names, rows, masses, H, weights, g, h)
            if added:
                m += 1
                since += 1
                if m == 1:
                    weights[0] = 1.0
            elif since:
                m = _rebuild(
                    m, names, rows, masses, H, weights, g, h
                )  # H's rounding may be all that is wrong
                since = 0
            else:
                break
        if verdict[i] == SELECTABLE:
            pooled = _join(i, W, pool, names_in_pool, place, pooled)


@njit(cache=True)
def _join(j, W, pool, names, place, pooled):
    """Put key j into the pool, once; the pool's new size."""
    if place[j] >= 0:
        return pooled
    pool[:, pooled] = W[j]
    names[pooled] = j
    place[j] = pooled
    return pooled + 1


@njit(cache=True)
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
