"""Proofs in rational arithmetic for keys exactly on the boundary of the hull, where floating point cannot tell."""

from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

NO_WEIGHT = 1e-9
"""Weights below this are taken for 0 with a rounding error, and are 0 in the exact solution."""
MOST_EXACT = 16
"""Largest number of dimensions for exact elimination, which takes seconds a key beyond."""


def in_hull_exactly(
    points: Float[np.ndarray, "n d"],
    i: int,
    support: Int[np.ndarray, " m"],
    weights: Float[np.ndarray, " m"],
    biased: bool,
) -> bool:
    """Whether row i of `points` is exactly a convex combination of the `support` rows with weights above NO_WEIGHT.

    The weights say only which rows count; exact weights are computed. With `biased`, the last column is
    the bias, and the combination's bias has to be at least that of row i. False also if there are more than 16
    columns, or if the supporting rows do not determine the weights.
    """
    d = points.shape[1]
    chosen = support[weights > NO_WEIGHT]
    if d > MOST_EXACT or len(chosen) == 0:
        return False
    rows = [[Fraction(float(points[j, c])) for j in (*chosen, i)] for c in range(d)]
    bias = rows.pop() if biased else None
    exact = _solve([*rows, [Fraction(1)] * (len(chosen) + 1)])
    if exact is None or min(exact) < 0:
        return False
    return bias is None or sum(w * b for w, b in zip(exact, bias, strict=False)) >= bias[-1]


def _solve(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The one solution of a linear system, each row its coefficients and right side; None if none or not one."""
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
