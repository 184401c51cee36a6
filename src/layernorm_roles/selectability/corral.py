"""The steps of Wolfe's algorithm (1976) for the point of a convex hull nearest to a target; compiled by numba."""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import njit
from layernorm_roles.selectability.sums import combine, dot

RAY = -2
"""Number, in place of a key's, of the atom that is the direction in which the keys' bias decreases."""


class Corral(NamedTuple):
    """State of Wolfe's algorithm: a few affinely independent points, the atoms, and the point of their hull reached.

    The m atoms, keys minus the target or the `RAY`, are the first m rows of each array. H is the inverse of the Gram
    matrix G = rows rows' + shift * mass mass', which exists iff the atoms are affinely independent. The point of their
    affine hull nearest to the target has weights proportional to u = H mass.
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
def new_corral(r):
    """A `Corral`, the state of Wolfe's algorithm, without atoms, and with space for r + 1 of r coordinates."""
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
def add(c, m, name, W, x, shift):
    """Add an atom of weight 0 to the `Corral` c of m atoms: key W[name] minus the target x, or the RAY.

    Returns True; or False, without a change, if the atom is there or depends affinely on those that are.
    """
    if m > len(x):
        return False
    for a in range(m):
        if c.names[a] == name:
            return False  # only rounding can ask for it again
    if name == RAY:
        mass, row = 0.0, np.zeros(len(x))
        row[-1] = -1.0
    else:
        mass, row = 1.0, W[name] - x
    for a in range(m):
        c.g[a] = dot(c.rows[a], row) + shift * mass * c.mass[a]
    combine(c.g, c.H, m, m, c.h)
    own = dot(row, row) + shift * mass
    pivot = own - dot(c.g[:m], c.h[:m])
    if not pivot > 1e-14 * own:
        return False
    u = (mass - dot(c.g[:m], c.u[:m])) / pivot
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
def drop(c, m, k):
    """Take atom k out of the `Corral` c of m atoms, in place; the last atom moves to row k."""
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
def rebuild(c, m, W, x, shift):
    """Recompute the m atoms of the `Corral` c, for target x, and H; returns m, or 0 if they are affinely dependent."""
    for k in range(m):
        weight = c.weights[k]
        if not add(c, k, c.names[k], W, x, shift):
            return 0
        c.weights[k] = weight
    sharpen(c, m, shift)
    return m


@njit
def sharpen(c, m, shift):
    """Improve the solution u of G u = mass, for the m atoms of the `Corral` c, by one step of iterative refinement."""
    r = c.rows.shape[1]
    point = np.empty(r)
    combine(c.u, c.rows, m, r, point)
    rest = 1 - shift * dot(c.u[:m], c.mass[:m])
    for a in range(m):
        c.g[a] = rest * c.mass[a] - dot(c.rows[a], point)
    combine(c.g, c.H, m, m, c.h)
    for a in range(m):
        c.u[a] += c.h[a]


@njit
def settle(c, m, y):
    """Wolfe's minor cycle: move to the point nearest to the target in the affine hull of the `Corral` c of m atoms.

    Atoms whose weight turns negative are dropped; returns how many are left. y becomes the point minus the target.
    """
    while True:
        total = dot(c.mass[:m], c.u[:m])
        step, blocking = 1.0, -1
        for k in range(m):
            target = c.u[k] / total
            if target < 0 and c.weights[k] < step * (c.weights[k] - target):
                step, blocking = c.weights[k] / (c.weights[k] - target), k
        for k in range(m):
            c.weights[k] += step * (c.u[k] / total - c.weights[k])
        if blocking < 0:
            break
        drop(c, m, blocking)
        m -= 1
    combine(c.weights, c.rows, m, len(y), y)
    return m
