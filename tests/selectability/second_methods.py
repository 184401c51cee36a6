"""Other ways to say which keys lie in the convex hull of the others, and how much attention a key can get."""

from fractions import Fraction

import mpmath
import numpy as np
from scipy.spatial import ConvexHull


def assert_agree(verdicts, in_hull):
    """Verdicts are those of another method, but for keys that are borderline."""
    wrong = (verdicts != "borderline") & ((verdicts == "unselectable") != in_hull)
    assert not wrong.any(), f"disagreement about keys {wrong.nonzero()[0].tolist()}"


def qhull(keys):
    """In the hull of the others, for points in general position: not a vertex that Qhull finds."""
    inside = np.ones(len(keys), bool)
    inside[ConvexHull(keys).vertices] = False
    return inside


def rational(points, biased=False, causal=False):
    """Exactly: is there w >= 0 with sum w = 1 and sum w_j k_j = k_i? With `causal`, of the rows before a row."""
    exact = [[Fraction(float(value)) for value in row] for row in points]
    after = [[] if causal else exact[i + 1 :] for i in range(len(exact))]
    return np.array([_feasible(exact[:i] + after[i], exact[i], biased) for i in range(len(exact))])


def _feasible(others, point, biased):
    if not others:
        return False
    columns = [[*row, Fraction(1)] for row in others]
    right = [*point, Fraction(1)]
    if biased:  # the weighted bias may exceed: a slack column
        slack = [Fraction(0)] * len(right)
        slack[-2] = Fraction(-1)
        columns.append(slack)
    rows = [[column[r] for column in columns] + [right[r]] for r in range(len(right))]
    rows = [row if row[-1] >= 0 else [-value for value in row] for row in rows]
    width = len(columns)
    cost = [-sum(row[c] for row in rows) for c in range(width + 1)]  # the artificial variables, summed
    basis = [None] * len(rows)
    while True:
        entering = next((c for c in range(width) if cost[c] < 0), None)  # Bland's rule: no cycles
        if entering is None:
            return cost[-1] == 0
        ratios = [
            (row[-1] / row[entering], width if basis[r] is None else basis[r], r)
            for r, row in enumerate(rows)
            if row[entering] > 0
        ]
        _, _, leaving = min(ratios)
        pivot = [value / rows[leaving][entering] for value in rows[leaving]]
        rows = [
            pivot if r == leaving else [a - row[entering] * b for a, b in zip(row, pivot, strict=True)]
            for r, row in enumerate(rows)
        ]
        cost = [a - cost[entering] * b for a, b in zip(cost, pivot, strict=True)]
        basis[leaving] = entering


def to_thirty_digits(keys, i, query):
    """The ceiling over all queries of a key within the hull, by Newton's method in mpmath from a query nearby."""
    with mpmath.workdps(40):
        d = keys.shape[1]
        exact = [[mpmath.mpf(float(value)) for value in row] for row in keys]
        offsets = [[k - own for k, own in zip(row, exact[i], strict=True)] for row in exact]

        def powers(q):
            return [mpmath.exp(mpmath.fdot(q, row)) for row in offsets]

        def gradient(*q):
            p = powers(q)
            return [mpmath.fdot(p, [row[a] for row in offsets]) / sum(p) for a in range(d)]

        root = mpmath.findroot(gradient, tuple(float(value) for value in query), tol=1e-60)
        return 1 / sum(powers(list(root)))


def attention(keys, queries):
    """The attention that each query gives the key of the same number, to thirty digits."""
    with mpmath.workdps(30):
        rows = [[mpmath.exp(mpmath.fdot(map(float, q), map(float, k))) for k in keys] for q in queries]
        return [row[i] / sum(row) for i, row in enumerate(rows)]
