"""Other ways to say which keys lie in the convex hull of the others, and how much attention a key can get."""

from fractions import Fraction

import mpmath
import numpy as np
from scipy.optimize import linprog, minimize
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


def highs_distances(keys, bias=None):
    """Each key's distance to the hull of the others, max_c |k_i - sum_j w_j k_j|_c / max_j |k_jc|, by HiGHS.

    With a bias, also the amount by which the weighted bias falls short. This is what `certify` encloses between
    margin and residual. Feasibility tolerances are at HiGHS' smallest, 1e-10.
    """
    unit = abs(keys).max(axis=0)
    scaled = keys / np.where(unit > 0, unit, 1)
    n, d = scaled.shape
    distances = np.full(n, np.inf)
    for i in range(n if n > 1 else 0):
        others = np.delete(scaled, i, axis=0)
        rows = [np.c_[others.T, -np.ones(d)], np.c_[-others.T, -np.ones(d)]]
        right = [scaled[i], -scaled[i]]
        if bias is not None:
            b = bias / max(abs(bias).max(), 1e-300)
            rows.append(np.r_[-np.delete(b, i), -1][None])
            right.append([-b[i]])
        solved = linprog(
            np.r_[np.zeros(n - 1), 1],
            A_ub=np.concatenate(rows),
            b_ub=np.concatenate(right),
            A_eq=np.r_[np.ones(n - 1), 0][None],
            b_eq=[1],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        assert solved.success, solved.message
        distances[i] = solved.fun
    return distances


def rational(points, biased=False, causal=False):
    """Exactly: is there w >= 0 with sum w = 1 and sum w_j k_j = k_i? Phase one of the simplex method in fractions.

    With `causal`, only the rows before a row count.
    """
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


def by_entropy(keys):
    """Ceilings over all queries: exp(-H) for the largest entropy H of weights whose mean is the key, by SLSQP.

    The start is a feasible mixture: the own key, and every other one by how much the key's nearness demands.
    """
    keys = (keys - keys.mean(axis=0)) / keys.std(axis=0)
    n = len(keys)
    found = []
    for key in keys:
        solved = minimize(
            lambda mu: float((mu * np.log(np.maximum(mu, 1e-300))).sum()),
            np.full(n, 1 / n),
            jac=lambda mu: np.log(np.maximum(mu, 1e-300)) + 1,
            bounds=[(0, 1)] * n,
            constraints={
                "type": "eq",
                "fun": lambda mu, key=key: np.append(mu @ keys - key, mu.sum() - 1),
                "jac": lambda mu: np.vstack([keys.T, np.ones(n)]),
            },
            method="SLSQP",
            options={"maxiter": 1000, "ftol": 1e-14},
        )
        found.append(np.exp(solved.fun))
    return np.array(found)


def minus_log_softmax(keys, i, query):
    """-log softmax(K q)_i, and its gradient by q."""
    scores = (keys - keys[i]) @ query
    top = scores.max()
    p = np.exp(scores - top)
    return top + np.log(p.sum()), p @ (keys - keys[i]) / p.sum()


def by_search(keys, centre, axes):
    """Ceilings over the queries centre + axes u, |u| <= 1, by SLSQP on u from three starts."""
    found = []
    for i in range(len(keys)):

        def value(u, i=i):
            f, gradient = minus_log_softmax(keys, i, centre + axes @ u)
            return f, axes.T @ gradient

        starts = [
            np.zeros(axes.shape[1]),
            *(0.5 * np.random.default_rng(i).standard_normal((2, axes.shape[1]))),
        ]
        solved = [
            minimize(
                value,
                start,
                jac=True,
                constraints={"type": "ineq", "fun": lambda u: 1 - u @ u, "jac": lambda u: -2 * u},
                method="SLSQP",
                options={"maxiter": 1000, "ftol": 1e-15},
            )
            for start in starts
        ]
        found.append(np.exp(-min(s.fun for s in solved if s.x @ s.x <= 1 + 1e-9)))
    return np.array(found)


def to_thirty_digits(keys, i, query):
    """The ceiling over all queries of a key within the hull, by Newton's method in mpmath from a query nearby."""
    with mpmath.workdps(40):
        d = keys.shape[1]
        offsets = [
            [mpmath.mpf(float(k)) - mpmath.mpf(float(own)) for k, own in zip(row, keys[i], strict=True)]
            for row in keys
        ]

        def powers(q):
            return [mpmath.exp(mpmath.fdot(q, row)) for row in offsets]

        def gradient(*q):
            p = powers(q)
            return [mpmath.fdot(p, [row[a] for row in offsets]) / sum(p) for a in range(d)]

        root = mpmath.findroot(gradient, tuple(float(value) for value in query), tol=1e-60)
        return 1 / sum(powers(list(root)))
