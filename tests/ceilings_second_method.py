"""Ceilings by other means: scipy's SLSQP on both problems, and thirty digits."""

import mpmath
import numpy as np
from scipy.optimize import minimize


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
