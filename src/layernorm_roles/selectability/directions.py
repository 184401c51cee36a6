"""Queries that need no search: most keys that can win do so in a direction that is known beforehand.

A key's own direction puts most vertices of the hull first. In many dimensions, repeatedly reflecting the query over the
bisector with the key that beats it (braid reflect; Demeter et al. 2020, Grivas et al. 2022) finds a query for most of
the rest.
"""

import numpy as np
from jaxtyping import Float, Int8

from layernorm_roles.selectability.coordinates import Coordinates
from layernorm_roles.selectability.leads import leads
from layernorm_roles.selectability.search import OPEN, SELECTABLE

_REFLECT = 32  # dimensions from which braid reflect saves more searches than it costs
_ROWS = 4096  # queries measured at once


def try_directions(
    at: Coordinates,
    Q: Float[np.ndarray, "m n r"],
    biased: bool,
    causal: bool,
    enough: float,
    state: Int8[np.ndarray, "m n"],
    queries: Float[np.ndarray, "m n r"],
) -> None:
    """Where a query with a margin of more than `enough` is found for an open key, enter it and that the key can win.

    Q: the queries to be tried first, which are overwritten.
    """

    def accept(name_rivals: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        lead, rival = leads(at.W, Q, causal, name_rivals=name_rivals)
        wins = lead > 0
        if biased:
            wins &= Q[:, :, -1] > 0
        for start in range(0, Q.shape[1] if wins.any() else 0, _ROWS):
            part = slice(start, start + _ROWS)
            # The largest score that a query can draw from entries as large as the data's: the unit of its margin.
            wins[:, part] &= lead[:, part] > enough * abs(Q[:, part] @ at.B).sum(axis=2)
        state[wins] = SELECTABLE
        np.copyto(queries, Q, where=wins[:, :, None])
        return lead, rival

    Q[state != OPEN] = 0
    accept()
    if not biased:
        _only_open(at.W, state, Q)
        accept()
    if Q.shape[2] >= _REFLECT:
        _only_open(at.W, state, Q)
        _try_reflections(at.W, Q, state, accept)


def _only_open(
    W: Float[np.ndarray, "m n r"], state: Int8[np.ndarray, "m n"], Q: Float[np.ndarray, "m n r"]
) -> None:
    """Make every open key's own direction its query, and 0 that of every other key."""
    Q[...] = W
    Q[state != OPEN] = 0


def _try_reflections(
    W: Float[np.ndarray, "m n r"], Q: Float[np.ndarray, "m n r"], state: Int8[np.ndarray, "m n"], accept
) -> None:
    """Braid reflect, for all open keys at once, for as long as a round costs less than the searches it saves."""
    r = W.shape[2]
    poor_rounds = np.zeros(len(W), int)
    for _ in range(r):
        tried = Q.any(axis=2)
        if not tried.any():
            return
        lead, rival = accept(name_rivals=True)
        found = (tried & (state != OPEN)).sum(axis=1)
        poor_rounds += 2 * r * found < tried.sum(axis=1)  # a search costs about as much as 2 r tries
        Q[(state != OPEN) | (poor_rounds > 5)[:, None]] = 0
        a, i = np.nonzero(Q.any(axis=2))
        bisector = W[a, i] - W[a, rival[a, i]]
        length = np.einsum("ij,ij->i", bisector, bisector)
        step = np.divide(2 * lead[a, i], length, out=np.zeros_like(length), where=length > 0)
        Q[a, i] -= step[:, None] * bisector
