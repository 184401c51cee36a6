"""A proof in float64 that a key lies strictly inside a simplex of other keys, whatever rounding did."""

import numpy as np
from jaxtyping import Bool, Float

_UNIT = 2.0**-53  # relative error of one operation in float64


def surely_inside(
    point: Float[np.ndarray, "k d"], corners: Float[np.ndarray, "k d+1 d"]
) -> Bool[np.ndarray, " k"]:
    """Whether each point is proved to be in the interior of the simplex of its corners; False says nothing.

    The barycentric coordinates b solve A b = e, with the corners as seen from the point, and a row of ones, in A. For
    an approximate inverse C of A and the approximation c = C e, the exact ones differ from c by at most
    |C (A c - e)| / (1 - a) in the maximum norm, if a = |I - C A| < 1 (Rump, Verification methods, Acta Numerica 2010,
    section 10). What rounding adds to both, also where the point is subtracted from the corners, is added to the bound.
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
