"""The steps of Wolfe's algorithm (1976) for the point of a convex hull nearest to a target; compiled by numba."""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import njit
from layernorm_roles.selectability.sums import combine, dot

RAY = -2
"""Number, in place of a key's, of the atom that is the direction in which the keys' bias decreases."""


class Corral(NamedTuple):
    """The state of Wolfe's algorithm, which finds the point of a convex hull of keys that is nearest to a target.

    It has m affinely independent points, called atoms, and the weights of the point of their hull reached so far. An
    atom is a key minus the target (mass 1), or `RAY`, the direction in which the bias decreases (mass 0). Each array
    has the atoms in its first m rows. H is the inverse of the Gram matrix G = rows rows' + shift * mass mass', for some
    constant shift. The point of the atoms' affine hull nearest to the target has weights proportional to u = H mass.
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
    """An empty `Corral`, the state of Wolfe's algorithm, with space for r + 1 points of r coordinates."""
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
    """Add a point of weight 0 to the m points of the `Corral` c: the key W[name] minus the target x.

    Or, for RAY, the direction in which the bias decreases. False if it is there or depends affinely on the others.
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
    """Remove point k from the m points of the `Corral` c, in place; the last point takes its row."""
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
    """Recompute the m points of the `Corral` c for the target x, and the inverse H of their Gram matrix."""
    for k in range(m):
        weight = c.weights[k]
        if not add(c, k, c.names[k], W, x, shift):
            return 0
        c.weights[k] = weight
    sharpen(c, m, shift)
    return m


@njit
def sharpen(c, m, shift):
    """Reduce rounding errors in the field u of the `Corral` c by one step of iterative refinement."""
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
    """Move the current point of the `Corral` c to the one nearest to the target in the affine hull of its m points."""
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
