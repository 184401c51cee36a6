"""Minima of quadratic models, one for each key, for Newton's method in `ceilings_newton`; compiled by numba.

Eight keys are solved at once, as lanes of arrays whose last axis has length 8, so that every inner loop is one vector
instruction. A symmetric matrix is its lower triangle, row by row: entry (a, c), c <= a, is at a (a + 1) / 2 + c.
Squares are products, since numba compiles x ** 2 in another way after a power of an array, with other roundings.
"""

from typing import NamedTuple

import numpy as np

from layernorm_roles.compiling import IN_ONE, cached_njit, njit

_LANES = 8  # float64 numbers in a vector of AVX-512
_ATTEMPTS = 60  # factorisations for a set of lanes, at most
_ON_SPHERE = 1e-9  # |v| - 1 that counts as none; the point is then scaled onto the sphere
_FLOOR = 1e-15  # of the size of the curvature: the smallest shift, which keeps singular curvatures solvable

_inlined = njit(fastmath={"contract"}, **IN_ONE)


class _Work(NamedTuple):
    """Arrays for the models of eight keys that are solved at once, the lanes of the last axis."""

    curvature: np.ndarray  # (r (r + 1) / 2, lanes)
    factor: np.ndarray  # (r (r + 1) / 2, lanes) Cholesky factor, with the reciprocals of its diagonal
    right: np.ndarray  # (r, lanes) the model's minimum solves (curvature + shift) v = right
    v: np.ndarray  # (r, lanes)
    scratch: np.ndarray  # (r, lanes)
    floor: np.ndarray  # (lanes,) smallest shift
    shift: np.ndarray  # (lanes,)
    length: np.ndarray  # (lanes,) |v|
    slope: np.ndarray  # (lanes,) minus half the derivative of |v|^2 by the shift


@cached_njit(fastmath={"contract"}, error_model="numpy", nogil=True)
def minimise_models(second, mean, gradient, point, shift, bounded):
    """Move each of b points to the minimum of a quadratic model, or to its minimum in the unit ball if `bounded`.

    A point is a query for one key, and its model approximates minus the logarithm of the attention that the key gets.
    `second` (r (r + 1) / 2, b) has the lower triangles of E[z z'], and `mean` (r, b) has E[z], where E is the mean over
    all keys z, weighted by the point's attention. `gradient` (r, b) is the model's at the point. `point` (r, b) and
    `shift` (b,) are overwritten. `shift` holds the multipliers of the constraint |u| <= 1 on points u, with which the
    next call starts; a small shift also makes singular curvatures positive definite.
    """
    r, b = mean.shape
    triangle = r * (r + 1) // 2
    work = _Work(
        np.zeros((triangle, _LANES)), np.zeros((triangle, _LANES)), np.zeros((r, _LANES)), np.zeros((r, _LANES)),
        np.zeros((r, _LANES)), np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES), np.zeros(_LANES),
    )  # fmt: skip
    for start in range(0, b, _LANES):
        _load(second, mean, gradient, point, shift, start, bounded, work)
        for _ in range(_ATTEMPTS):
            if not _factorise(work):
                continue
            _solve(work)
            if not bounded or _on_sphere_or_inside(work):
                break
        _unload(work, start, bounded, point, shift)


@_inlined
def _load(second, mean, gradient, point, shift, start, bounded, work):
    """Set up the quadratic models of eight keys, from column `start` on; lanes beyond the last key repeat that key."""
    r, b = mean.shape
    for lane in range(_LANES):
        j = min(start + lane, b - 1)
        trace, size = 0.0, 0.0
        for a in range(r):
            row = a * (a + 1) // 2
            total = -gradient[a, j]
            size += second[row + a, j] + gradient[a, j] * gradient[a, j]
            for c in range(a + 1):
                value = second[row + c, j] - mean[a, j] * mean[c, j]
                work.curvature[row + c, lane] = value
                if bounded:
                    total += value * point[c, j]
                    if c < a:
                        work.right[c, lane] += value * point[a, j]
            work.right[a, lane] = total
            trace += work.curvature[row + a, lane]
        # Where all attention is on one key, the curvature is 0, or what rounding makes of it: even negative.
        work.floor[lane] = _FLOOR * (trace if trace > 0.0 else size) + 1e-290
        work.shift[lane] = max(shift[j], work.floor[lane]) if bounded else work.floor[lane]


@_inlined
def _factorise(work):
    """Compute Cholesky's factors of curvature + shift; False, with larger shifts, if one is not positive definite."""
    positive = True
    total = work.scratch[0]
    for a in range(len(work.v)):
        row = a * (a + 1) // 2
        for c in range(a + 1):
            row_c = c * (c + 1) // 2
            for lane in range(_LANES):
                total[lane] = work.curvature[row + c, lane]
            for e in range(c):
                for lane in range(_LANES):
                    total[lane] -= work.factor[row + e, lane] * work.factor[row_c + e, lane]
            if c < a:
                for lane in range(_LANES):
                    work.factor[row + c, lane] = total[lane] * work.factor[row_c + c, lane]
        for lane in range(_LANES):
            pivot = total[lane] + work.shift[lane]
            if not pivot > 0.0:
                positive = False
                work.shift[lane] *= 100.0
                pivot = 1.0
            work.factor[row + a, lane] = 1 / np.sqrt(pivot)
        if not positive:
            return False
    return True


@_inlined
def _solve(work):
    r = len(work.v)
    for a in range(r):
        row = a * (a + 1) // 2
        for lane in range(_LANES):
            work.v[a, lane] = work.right[a, lane]
        for e in range(a):
            for lane in range(_LANES):
                work.v[a, lane] -= work.factor[row + e, lane] * work.v[e, lane]
        for lane in range(_LANES):
            work.v[a, lane] *= work.factor[row + a, lane]
    for a in range(r - 1, -1, -1):
        row = a * (a + 1) // 2
        for lane in range(_LANES):
            work.v[a, lane] *= work.factor[row + a, lane]
        for e in range(a):
            for lane in range(_LANES):
                work.v[e, lane] -= work.factor[row + e, lane] * work.v[a, lane]


@_inlined
def _on_sphere_or_inside(work):
    """Whether each lane's v is on the unit sphere, or inside it with the least shift; else improves the lane's shift.

    That is Newton's step for 1 / |v| = 1 (More and Sorensen 1983), which from the second on stays below the solution.
    """
    r = len(work.v)
    done = True
    for lane in range(_LANES):
        work.length[lane] = 0.0
        work.slope[lane] = 0.0
    for a in range(r):
        row = a * (a + 1) // 2
        for lane in range(_LANES):
            work.length[lane] += work.v[a, lane] * work.v[a, lane]
            work.scratch[a, lane] = work.v[a, lane]
        for e in range(a):
            for lane in range(_LANES):
                work.scratch[a, lane] -= work.factor[row + e, lane] * work.scratch[e, lane]
        for lane in range(_LANES):
            work.scratch[a, lane] *= work.factor[row + a, lane]
            work.slope[lane] += work.scratch[a, lane] * work.scratch[a, lane]
    for lane in range(_LANES):
        square, shift = work.length[lane], work.shift[lane]
        length = np.sqrt(square)
        work.length[lane] = length
        if abs(length - 1) > _ON_SPHERE and (length > 1 or shift > work.floor[lane]):
            done = False
            improved = shift + (length - 1) * square / max(work.slope[lane], 1e-300)
            work.shift[lane] = max(improved, work.floor[lane])
    return done


@_inlined
def _unload(work, start, bounded, point, shift):
    """Write minima and shifts of the lanes to `point` and `shift`; minima on the unit sphere get length 1."""
    r, b = point.shape
    for lane in range(min(_LANES, b - start)):
        j = start + lane
        if bounded:
            outside = work.length[lane] > 1 or work.shift[lane] > work.floor[lane]
            for a in range(r):
                point[a, j] = work.v[a, lane] / work.length[lane] if outside else work.v[a, lane]
        else:
            for a in range(r):
                point[a, j] += work.v[a, lane]
        shift[j] = work.shift[lane]
