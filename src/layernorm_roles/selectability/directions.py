"""Guesses of queries that give a key the strictly highest score, which spare most keys a search for one.

The first guess is the key itself as a query, with which most vertices of the keys' convex hull win. In many dimensions,
reflecting the query again and again over the bisector with the key that beats it (braid reflect; Demeter et al. 2020)
finds one for most of the rest.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from layernorm_roles.selectability.arrays import Keys, Numbers, Rows, row_blocks
from layernorm_roles.selectability.coordinates import Coordinates, exponents, of_size_one, scaled_by, varying
from layernorm_roles.selectability.leads import TOGETHER, leads
from layernorm_roles.selectability.search import OPEN, SELECTABLE
from layernorm_roles.selectability.threads import cores

_REFLECT = 32  # dimensions from which braid reflect saves more searches than it costs
_BIAS = 0.3  # the factor of the bias in the first query of a key whose own last coordinate is below


@dataclass
class Directions:
    """Tries guessed queries, and stores each query that gives the key it is meant for the strictly highest score.

    The methods try queries for every key whose `state` is OPEN. If the margin of a query exceeds `enough`, the query is
    stored in `queries`, as one for the original keys, and the key's state becomes SELECTABLE.
    """

    keys: Keys
    bias: Numbers | None
    causal: bool
    enough: float
    state: Int8[np.ndarray, "m n"]
    queries: Float[np.ndarray, "m n d"]

    def try_keys(self) -> None:
        """Try each key whose state is OPEN, which means undecided, as a query for itself; there must be no bias."""
        exponent, varies = exponents(self.keys), varying(self.keys)
        largest = exponent.max(axis=1, keepdims=True, where=varies, initial=-(1 << 12))
        # A query for a column scaled by 2**exponent is multiplied by that, and so is a scaled key to be as it was.
        factor = (np.exp2(2.0 * np.minimum(exponent - largest, 0)) * varies)[:, None]
        for rows in self._open_rows(TOGETHER * cores()):
            own, _ = of_size_one(scaled_by(self.keys[:, rows], exponent) * factor, exponent)
            lead, _ = leads(self.keys, rows, own, self.state[:, rows] == OPEN, self.causal)
            self._enter(rows, lead > self.enough, own)

    def _open_rows(self, least: int = 1) -> list[Rows]:
        """The keys that are OPEN in some matrix, in blocks of at least so many."""
        still = np.flatnonzero((self.state == OPEN).any(axis=0))
        return [still[part] for part in row_blocks(len(still), self.keys[:, 0].size, least)]

    def try_whitened(self, at: Coordinates) -> None:
        """Try the whitened coordinates `at` of each undecided key, one whose state is OPEN, as a query for it."""
        for rows in self._open_rows():
            W = at.of(slice(None), rows)
            first = W.copy()
            if self.bias is not None:
                first[:, :, -1] = np.maximum(first[:, :, -1], _BIAS)
            self._accept(at, rows, first, self.state[:, rows] == OPEN)
            if W.shape[2] >= _REFLECT:
                self._try_reflections(at, rows, W)

    def _accept(
        self, at: Coordinates, rows: Rows, Q: Float[np.ndarray, "m k r"], given: Bool[np.ndarray, "m k"]
    ) -> tuple[Float[np.ndarray, "m k"], Int[np.ndarray, "m k"]]:
        """Try those of queries Q, for whitened keys `rows`, that are `given`; returns these keys' leads and rivals."""
        queries, size = of_size_one(Q @ at.B, at.exponent)
        lead, rival = leads(self.keys, rows, queries, given & (size > 0), self.causal, self.bias)
        wins = lead > self.enough
        if self.bias is not None:
            wins &= queries[:, :, -1] > 0
        self._enter(rows, wins, queries if self.bias is None else at.answers(Q))
        return lead * size, rival

    def _enter(self, rows: Rows, wins: Bool[np.ndarray, "m k"], queries: Float[np.ndarray, "m k d"]) -> None:
        a, k = np.nonzero(wins)
        self.state[a, rows[k]] = SELECTABLE
        self.queries[a, rows[k]] = queries[a, k]

    def _try_reflections(self, at: Coordinates, rows: Rows, W: Float[np.ndarray, "m k r"]) -> None:
        """Reflect queries of OPEN keys over the bisectors with their best rivals, and try them, while that pays."""
        r, Q = W.shape[2], W.copy()
        given = self.state[:, rows] == OPEN
        poor_rounds = np.zeros(len(W), int)
        for _ in range(r):
            if not given.any():
                return
            lead, rival = self._accept(at, rows, Q, given)
            won = (given & (self.state[:, rows] != OPEN)).sum(axis=1)
            poor_rounds += 2 * r * won < given.sum(axis=1)  # a search costs about as much as 2 r tries
            given &= (self.state[:, rows] == OPEN) & (poor_rounds <= 5)[:, None] & (rival >= 0)
            a, k = np.nonzero(given)
            rivals = [at.of(slice(b, b + 1), rival[b, given[b]])[0] for b in range(len(W))]
            bisector = W[a, k] - np.concatenate(rivals)
            length = np.einsum("ij,ij->i", bisector, bisector)
            step = np.divide(2 * lead[a, k], length, out=np.zeros_like(length), where=length > 0)
            Q[a, k] -= step[:, None] * bisector
