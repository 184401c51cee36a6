"""The search for certificates, compiled: can a query put key i first, or do other keys average to it?

Everything here happens in whitened coordinates (see `coordinates`), where each key is a row w of W (n, r). A query q
puts key i strictly first iff w_i lies outside the convex hull of the other keys, so one looks for the point of that
hull nearest to w_i. If it is w_i itself, the convex weights are the proof that no query exists; if not, w_i minus the
point is a query. Three parts make this fast:

* Wolfe's algorithm (1976) finds the nearest point by walking from one small set of keys, the corral, to the next. It
  asks only "which key is furthest in this direction?", and may stop as soon as a query separates.
* Clarkson's observation (1994): only vertices of the hull matter. The question is put to the vertices known so far, the
  pool, and to all keys only when the pool is beaten; each such time a new vertex turns up.
* A large pool is searched as a whole only when the vertices that were furthest in recent directions are beaten.

A bias b_i per key (score q.k_i + b_i) is one more coordinate with a positive component of the query, which may be
rescaled to 1: key i is unselectable iff it lies in the hull of the others plus the ray along which the bias decreases.
The ray joins the corral as an atom of mass 0.

In a causal search the rivals of key i are the keys before it; a key joins the pool after its turn.
"""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import cached_njit, njit
from layernorm_roles.selectability.corral import RAY, add, new_corral, rebuild, settle, sharpen
from layernorm_roles.selectability.pool import ask, join, lowest_key, lowest_vertex, new_near, new_pool
from layernorm_roles.selectability.sums import combine, dot, sums
from layernorm_roles.selectability.threads import on_all_cores
from layernorm_roles.slices import slices

OPEN, SELECTABLE, INSIDE, ON_EDGE = range(4)
"""States of a key in the search for certificates. OPEN: neither a query that puts the key first nor a weighted mean of
others that equals it is known. SELECTABLE: a query is known that gives it the strictly highest score. INSIDE: it equals
another key, or is in the others' convex hull even when pushed outwards by the tolerance. ON_EDGE: it is in that hull,
but not known to be in it when pushed outwards."""

_ELSEWHERE = 4  # state of an open key of a large matrix while another group of keys is searched
_GROUP, _GROUPS = 128, 16  # open keys in a group, and groups in a round of a large matrix
_ZERO = 1e-11  # a distance to the hull that counts as none, in whitened units; the final residuals are far smaller


class Problem(NamedTuple):
    """The input of the search for certificates: the n keys of m matrices in r whitened coordinates.

    For a search in a single matrix, the arrays lack their first axis, of length m.
    """

    everything: np.ndarray  # (m, r + 1, n) the keys, a column each, and half of their squared lengths
    B: np.ndarray  # (m, r, columns) query q for the whitened keys is q B for the scaled keys
    push: np.ndarray  # (m, n) the share of its distance from the mean by which a key is pushed outwards
    raised: np.ndarray  # (m, n) the last coordinate of a pushed key with a bias, which is raised as well
    biased: bool
    causal: bool  # only the keys before a key are its rivals
    enough: float  # a query with a margin above this is taken at once
    known: int  # so many keys, the first ones of every matrix, are known to be vertices of the hull


class Proofs(NamedTuple):
    """The state of each of the n keys in m matrices, and proofs for k of these keys in each matrix."""

    state: np.ndarray  # (m, n) OPEN, SELECTABLE, INSIDE or ON_EDGE
    place: np.ndarray  # (m, n) which of the k rows below holds the proof of an open key
    # (m, k, r) of a selectable key the query that puts it first, of an open one the best so far
    queries: np.ndarray
    support: np.ndarray  # (m, k, r + 1) the other keys of which a key in the hull is the weighted mean
    weights: np.ndarray  # (m, k, r + 1) their weights; 0 where the support is not used


@njit
def _search(problem, proofs):
    """Find proofs for every OPEN key of one matrix, by Wolfe's algorithm over a pool of known vertices."""
    W, state = problem.everything[:-1].T, proofs.state
    n, r = W.shape
    pool, near = new_pool(problem.everything, problem.known), new_near(r)
    if not problem.causal:  # else each key joins after its turn
        for j in range(n):
            if state[j] == SELECTABLE:
                join(pool, j)
    corral = new_corral(r)
    x, y = np.empty(r), np.empty(r)  # the target, and the corral's nearest point as seen from it
    for i in range(n):
        if state[i] != OPEN:
            if problem.causal and state[i] == SELECTABLE:
                join(pool, i)
            continue
        rivals = i if problem.causal else n
        x[:] = W[i]
        near.size[0] = 0
        zero = (_ZERO * max(1.0, np.sqrt(dot(x, x)))) ** 2
        best_margin, shift = -np.inf, 1.0
        m = 0  # atoms in the corral
        changes = 0  # of the corral since its inverse was last sharpened
        for _ in range(50 * (r + 2)):
            if m == 0:
                shift = _begin(corral, x, i, rivals, W, pool)
                m = 1
            before = m
            m = settle(corral, m, y)
            changes += before - m
            norm = dot(y, y)
            if norm <= zero:
                if changes > 0:
                    sharpen(corral, m, shift)
                    changes = 0
                elif state[i] == ON_EDGE:
                    state[i] = INSIDE
                    break
                else:
                    _enter_mean(i, corral, m, proofs)
                    _push_outwards(problem, i, x)
                    m = rebuild(corral, m, W, x, shift)
                continue
            level = dot(y, x)
            # A smaller component of the wrong sign is mended in _try_query, at less than the lead.
            ray_helps = problem.biased and y[-1] > 0.1 * norm / pool.spread
            name, low = ask(pool, near, y, i, level)
            if low > level and not ray_helps:
                name, low, best_margin = _try_query(
                    i, rivals, x, y, level, best_margin, problem, pool, proofs
                )
                if state[i] == SELECTABLE:
                    break
            nearest = low - level >= norm * (1 - 1e-10) and not ray_helps
            added = not nearest and add(corral, m, RAY if ray_helps else name, W, x, shift)
            m += added
            changes += added
            if not added and changes == 0:
                if shift >= 1:
                    break
                shift = 1.0  # a last try: rounding may have kept an atom out
            if not added or changes > 64 + 4 * r:
                m = rebuild(corral, m, W, x, shift)  # rounding in the inverse may be all that is left to do
                changes = 0
        if state[i] == SELECTABLE:
            join(pool, i)


@sums
def _size(q, B):
    """Sum of |q B|, a bound on the scores of query q with the scaled keys, by which margins are divided."""
    entries = np.empty(B.shape[1])
    combine(q, B, len(q), len(entries), entries)
    total = 0.0
    for c in range(len(entries)):
        total += abs(entries[c])
    return total


@njit
def _begin(corral, x, i, rivals, W, pool):
    """Start `corral` with one atom, the known vertex (or else key) nearest to x; returns its Gram matrix's shift."""
    near = np.ones(len(x) + 1)
    near[:-1] = -x
    name, _ = lowest_vertex(pool, near, i)
    if name < 0:
        name, _ = lowest_key(pool, near, i, rivals)
    shift = min(1.0, max(1e-6, ((W[name] - x) ** 2).sum()))
    add(corral, 0, name, W, x, shift)
    corral.weights[0] = 1.0
    return shift


@njit
def _push_outwards(problem, i, x):
    """Move target x from key i by the tolerance away from the mean of all keys or, if causal, of the keys before it."""
    W = problem.everything[:-1].T
    if problem.causal:
        x -= problem.push[i] * (W[:i].sum(axis=0) / i - W[i])
    else:
        x += problem.push[i] * W[i]
    if problem.biased:
        x[-1] = problem.raised[i]


@njit
def _enter_mean(i, corral, m, proofs):
    """Store the m atoms of `corral` and their weights as the proof that key i is in the others' hull (ON_EDGE)."""
    proofs.state[i] = ON_EDGE
    row, size = proofs.place[i], 0
    for k in range(m):
        if corral.names[k] != RAY and corral.weights[k] > 0:
            proofs.support[row, size], proofs.weights[row, size] = corral.names[k], corral.weights[k]
            size += 1


@njit
def _try_query(i, rivals, x, y, level, best_margin, problem, pool, proofs):
    """Put query -y, by which target x of key i beats the pool, to all keys below `rivals`; `level` is y . x.

    If key i comes first, the query is stored if its margin is the best so far; if not, the key that does joins the pool
    and, if OPEN, gets the query if it wins clearly. Returns the number and y . w of the first key w but i, and the best
    margin of key i.
    """
    name, low = lowest_key(pool, y, i, rivals)
    q = -y
    if low > level:
        if problem.biased:
            # The bias counts with a positive factor; this one costs at most half of the lead.
            q[-1] = max(q[-1], 0.5 * (low - level) / pool.spread)
            _, low = lowest_key(pool, -q, i, rivals)
        margin = (dot(q, x) + low) / _size(q, problem.B)
        if proofs.state[i] == OPEN and margin > best_margin:
            best_margin = margin
            proofs.queries[proofs.place[i]] = q
            if margin > problem.enough:
                proofs.state[i] = SELECTABLE
    else:
        join(pool, name)
        if proofs.state[name] == OPEN and (not problem.biased or q[-1] > 0):
            _, second = lowest_key(pool, y, name, name if problem.causal else rivals)
            if second - low > problem.enough * _size(q, problem.B):
                proofs.state[name] = SELECTABLE
                proofs.queries[proofs.place[name]] = q
    return name, low, best_margin


@cached_njit(nogil=True)
def find_certificates(problem, proofs):
    """Search for a proof of every undecided (OPEN) key of a `Problem`, and write it to `proofs`, a `Proofs`."""
    for a in range(len(proofs.state)):
        if np.any(proofs.state[a] == OPEN):
            arrays = problem.everything[a], problem.B[a], problem.push[a], problem.raised[a]
            one = Problem(*arrays, problem.biased, problem.causal, problem.enough, problem.known)
            arrays_of_a = proofs.queries[a], proofs.support[a], proofs.weights[a]
            _search(one, Proofs(proofs.state[a], proofs.place[a], *arrays_of_a))


def find_certificates_of_large(problem, proofs):
    """Search on all cores for proofs of the undecided (OPEN) keys of one large matrix, and write them to `proofs`.

    A proof is a query that gives the key the strictly highest score, or a weighted mean of other keys that equals the
    key. `problem.causal` must be false. Results do not depend on the number of cores: keys are searched in rounds of 16
    groups, and no group uses what another group of its round finds.
    """
    state = proofs.state

    def search(group):
        own = before.copy()
        own[0, group] = OPEN
        find_certificates(problem, proofs._replace(state=own))
        return own[0, group]

    still = np.flatnonzero(state[0] == OPEN)
    for block in slices(len(still), _GROUP * _GROUPS):
        keys = still[block]
        before = np.where(state == OPEN, _ELSEWHERE, state)
        groups = [keys[k::_GROUPS] for k in range(min(_GROUPS, len(keys)))]
        for group, known in zip(groups, on_all_cores(search, groups), strict=True):
            state[0, group] = known
