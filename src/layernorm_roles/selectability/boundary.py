"""Proofs, valid despite rounding, that a key is in the convex hull of others: inside a simplex, or on the boundary."""

from fractions import Fraction

import numpy as np
from jaxtyping import Bool, Float, Int

_UNIT = 2.0**-53  # relative error of one operation in float64
_MOST_EXACT = 16  # columns for which equations are solved in rational arithmetic; beyond, a key takes seconds
NO_WEIGHT = 1e-9
"""Convex weights up to this count as rounding errors of 0, and their keys are left out of an exact combination."""


def surely_inside(
    point: Float[np.ndarray, "k d"], corners: Float[np.ndarray, "k d+1 d"]
) -> Bool[np.ndarray, " k"]:
    """Whether each of k points is proved to lie inside the simplex of its d + 1 corners; False proves nothing.

    The proof shows that all barycentric coordinates b of a point are positive. They solve A b = e, where the columns of
    A are the corners minus the point, above a row of ones, and e = (0, ..., 0, 1). Let C be an approximate inverse of
    A, c = C e and a = |I - C A|. If a < 1, b and c differ by at most |C (A c - e)| / (1 - a) in the maximum norm (Rump,
    Verification methods, Acta Numerica 2010, section 10). The bounds allow for rounding.
    """
    k, d = point.shape
    inside = np.zeros(k, bool)
    system = np.ones((k, d + 1, d + 1))
    system[:, :d] = np.swapaxes(corners - point[:, None], 1, 2)
    largest = abs(system[:, :d]).max(axis=2, keepdims=True)
    system[:, :d] = np.ldexp(system[:, :d], -np.frexp(largest)[1])  # exact: the solution stays the same
    try:
        usable, C = np.arange(k), np.linalg.inv(system)
    except np.linalg.LinAlgError:  # one of them is singular
        usable = np.flatnonzero((largest > 0).all(axis=(1, 2)) & (np.linalg.cond(system) < 1e14))
        C = np.linalg.inv(system[usable])
    A = system[usable]
    solution = C[:, :, -1:]
    size, terms = abs(C) @ abs(A), (d + 4) * _UNIT
    rest = abs(A @ solution - np.eye(d + 1)[:, -1:]) + terms * (abs(A) @ abs(solution) + 1)
    away = (abs(np.eye(d + 1) - C @ A) + terms * (size + 1)).sum(axis=2).max(axis=1)
    wrong = (abs(C) @ rest)[:, :, 0].max(axis=1) * (1 + terms)
    proved = (away < 0.5) & (solution[:, :, 0].min(axis=1) > 2 * wrong)
    inside[usable[proved]] = True
    return inside


def in_hull_exactly(
    points: Float[np.ndarray, "n d"],
    i: int,
    support: Int[np.ndarray, " m"],
    weights: Float[np.ndarray, " m"],
    biased: bool,
) -> bool:
    """Whether row i of `points` is proved to be exactly a convex combination of the rows with indices `support`.

    Only rows with `weights` above 1e-9 (`NO_WEIGHT`) are used, and their exact weights are computed in rational
    arithmetic. If `biased`, the last column is a bias, and the combination must have at least the bias of row i. The
    result is also False if there are more than 16 columns, or if several choices of exact weights are possible.
    """
    d = points.shape[1]
    chosen = support[weights > NO_WEIGHT]
    if d > _MOST_EXACT or len(chosen) == 0:
        return False
    rows = [[Fraction(float(points[j, c])) for j in (*chosen, i)] for c in range(d)]
    bias = rows.pop() if biased else None
    exact = _solve([*rows, [Fraction(1)] * (len(chosen) + 1)])
    if exact is None or min(exact) < 0:
        return False
    return bias is None or sum(w * b for w, b in zip(exact, bias, strict=False)) >= bias[-1]


def _solve(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The solution of linear equations, each a row of coefficients and right side; None unless there is exactly one."""
    unknowns = len(rows[0]) - 1
    for k in range(unknowns):
        pivot = next((row for row in rows[k:] if row[k]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        pivot = [value / pivot[k] for value in pivot]
        rows = [[a - row[k] * b for a, b in zip(row, pivot, strict=True)] if row[k] else row for row in rows]
        rows.insert(k, pivot)
    return None if any(row[-1] for row in rows[unknowns:]) else [row[-1] for row in rows[:unknowns]]
