"""How much softmax attention can a query give a key? `ceilings` bounds it from both sides, for every key.

The ceiling of key i over a set of queries is c_i = sup over q of softmax(K q)_i. With the convex function f_i(q) =
log sum_j exp(q.(k_j - k_i)) >= 0, log(1 / c_i) = inf f_i.

**All queries.** *Selectable keys have the ceiling 1, and no other key has one above 1/2.*

For weights mu_j >= 0 with sum 1 and sum_j mu_j k_j = k_i, and any query, Jensen's inequality gives

    f_i(q) = log sum_j mu_j exp(q.(k_j - k_i) - log mu_j) >= sum_j mu_j (q.(k_j - k_i) - log mu_j) = H(mu),

the entropy of mu. The largest entropy is the infimum, since minus the entropy is the convex conjugate of the logarithm
of a sum of exponentials (Fenchel duality); it is attained, the feasible mu being a compact set with at least mu_i = 1.

* If i is selectable, q.k_i > q.k_j for all other j, then f_i(t q) -> 0 as t grows: c_i = 1, which no query attains if
  there is another key.
* If not, k_i lies in the convex hull of the other keys, because a point outside could be separated strictly. Every
  feasible mu is a mean of weight 1 - a for k_i and a for weights nu of the other keys with mean k_i, and has the
  entropy -a log a - (1 - a) log(1 - a) + a H(nu). At the best a this is log(1 + e^H(nu)). With H the largest
  H(nu) >= 0: c_i = 1 / (1 + e^H) <= 1/2. QED.

*Duplicates.* m copies of a point share equally: c_i <= 1/m, with equality iff the point without its copies is
selectable. *Keys on the boundary* of the hull that are no vertices are unselectable too. There the infimum is
approached by queries that grow along the normal of the smallest face with the key, and mu uses the keys on that face
only; the search ends when the attention to all other keys is lost in the rounding.

**Queries of a norm.** Over an ellipsoid (`QueryEllipsoid`) f_i has a minimum, which by convexity its tangent at any
point bounds from below. `ceilings_newton` describes the search, `ceilings_bounds` what exactly is proved.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from layernorm_roles.selectability import ceilings_bounds, coordinates
from layernorm_roles.selectability.arrays import checked
from layernorm_roles.selectability.ceilings_bounds import Bounds
from layernorm_roles.selectability.ceilings_newton import CeilingProblem, clear_lead, minimise
from layernorm_roles.selectability.ceilings_queries import QueryEllipsoid
from layernorm_roles.selectability.certificates import SELECTABLE
from layernorm_roles.selectability.certify import certify
from layernorm_roles.selectability.threads import one_thread_a_product

_AGREES = 1e-9  # relative difference that other processors' roundings may make when bounds are computed again


@dataclass(frozen=True, repr=False)
class Ceilings:
    """Proved lower and upper bounds on the largest attention weight that one query can give each of n keys of size d.

    The bounds allow for rounding. log(upper / lower) is below 1e-6, except for keys within about 1e-12 of the boundary
    of the keys' convex hull, and for an ellipsoid of which only the surface has queries. Bounds over all queries have a
    limit: `upper` is proved for queries q with sum_a |q_a| max_j |k_ja| <= 10,000, where the keys k_j are whitened to
    mean 0 and covariance 1 and a runs over coordinates. The stored `query` of a key that is selectable with a margin
    below 1e-4 may be beyond this limit.
    """

    lower: Float[np.ndarray, " n"]
    """Proved lower bound on the largest attention weight, 0..1, of each key: the stored query gives as much."""
    upper: Float[np.ndarray, " n"]
    """Proved upper bound on the attention weight, 0..1, of each key: no query of the set `queries` exceeds it."""
    query: Float[np.ndarray, "n d"]
    """For each key a query of the set `queries` that gives it at least the attention weight `lower`."""
    proof: Float[np.ndarray, "n r"]
    """For each key the vector that proves `upper`: over all queries Newton's step from `query` (r = d), 0 for a
    selectable key; over an ellipsoid the point u of the unit ball at which convexity gives the bound."""
    queries: QueryEllipsoid | None
    """The set of queries that the bounds are about, an ellipsoid with orthogonal axes; None stands for all queries."""
    null: float
    """Standard deviation of the keys along a direction, after columns were scaled to largest magnitudes between 1/2
    and 1, below which the keys count as equal along it."""

    def __repr__(self) -> str:
        n, d = self.query.shape
        among = "all queries" if self.queries is None else "an ellipsoid of queries"
        bounds = f"{self.upper.min():.3g} to {self.upper.max():.3g}"
        return f"Ceilings({n:,} keys of size {d} over {among}: {bounds}, gap {self.gap.max():.1g})"

    @property
    def gap(self) -> Float[np.ndarray, " n"]:
        """For each key the natural logarithm of `upper` / `lower`, which says how far its two bounds are apart."""
        with np.errstate(divide="ignore"):
            return np.log(self.upper) - np.log(self.lower)

    def verify(self, keys: ArrayLike) -> Bounds:
        """Compute the bounds for `keys` (n, d) again in float64, from the stored queries and proofs, and return them.

        Raises ValueError if a stored bound does not hold; the message has the row of the first key with such a bound.
        """
        keys = checked(keys, "keys", dimensions=2).astype(np.float64)
        if keys.shape != self.query.shape:
            raise ValueError(
                f"keys have {len(keys):,} rows of size {keys.shape[1]}: these ceilings are those of "
                f"{self.query.shape[0]:,} rows of size {self.query.shape[1]}"
            )
        with one_thread_a_product():
            bounds = _bounds(keys, self.queries, self.query, self.proof, self.null)
        holds = (bounds.lower >= self.lower * (1 - _AGREES)) & (bounds.upper <= self.upper * (1 + _AGREES))
        if self.queries is not None:
            holds &= (self.proof**2).sum(axis=1) <= 1 + 1e-12
            distance = abs(self.query - _queries_at(self.proof, self.queries)).max(axis=1)
            holds &= distance <= _AGREES * abs(self.query).max(axis=1)
        if not holds.all():
            i = int(np.argmin(holds))
            raise ValueError(
                f"row {i}: the bounds do not hold: stored {self.lower[i]:.9g} to {self.upper[i]:.9g}, "
                f"proved {bounds.lower[i]:.9g} to {bounds.upper[i]:.9g}"
            )
        return bounds


def ceilings(keys: ArrayLike, queries: QueryEllipsoid | None = None) -> Ceilings:
    """Bound the largest attention weight softmax(K q)_i of each of n keys, over all queries q or over an ellipsoid.

    `keys` (n, d) are float32 or float64; float16 is taken as float32, and integers as float64. All is computed in
    float64. If `queries` is None, bounds are over all queries, and a direction in which the keys agree to within
    rounding counts as constant. Raises ValueError unless the keys are a matrix of finite real numbers with at least one
    row and one column, for integers beyond 2^53, and for an ellipsoid that does not have d dimensions.

    >>> square = [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0], [2.0, 2.0]]
    >>> ceilings(square).upper.round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.2]
    >>> ceilings(square, QueryEllipsoid(np.zeros(2), 0.25 * np.eye(2))).upper.round(3).tolist()
    [0.367, 0.367, 0.367, 0.367, 0.2]
    """
    keys = checked(keys, "keys", dimensions=2)
    null = coordinates.NULL[keys.dtype]
    keys = keys.astype(np.float64)
    queries = None if queries is None else _matching(queries, keys.shape[1])
    with one_thread_a_product():
        query, proof = _search(keys, queries, null)
        bounds = _bounds(keys, queries, query, proof, null)
    return Ceilings(bounds.lower, bounds.upper, query, proof, queries, null)


def _search(keys, queries, null) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n r"]]:
    """For each key the query and the proof that `Ceilings` stores."""
    if queries is None:
        distinct = _Distinct(keys, null)
        query, proof = (distinct.for_data(found)[distinct.place] for found in _over_all_queries(distinct))
        return query, proof
    centred = keys - keys.mean(axis=0)
    problem = CeilingProblem(centred @ queries.axes, centred @ queries.centre, bounded=True)
    proof, _ = minimise(problem, np.arange(len(keys)))
    proof /= np.maximum(1, np.sqrt((proof**2).sum(axis=1, keepdims=True)))
    return _queries_at(proof, queries), proof


def _matching(queries: QueryEllipsoid, d: int) -> QueryEllipsoid:
    """The ellipsoid in float64 with orthogonal axes; raises ValueError unless its shapes fit keys of size d."""
    centre, axes = checked(queries.centre, "centre", 1), checked(queries.axes, "axes", 2)
    if centre.shape != (d,) or axes.shape[0] != d:
        raise ValueError(
            f"the queries have a centre of shape {centre.shape} and axes of shape {axes.shape}: "
            f"expected ({d},) and ({d}, r) for keys in {d} dimensions"
        )
    return QueryEllipsoid(centre, axes, filled=queries.filled).principal()


class _Distinct:
    """The distinct rows of `keys`, whitened (to mean 0 and covariance 1), their first places, and numbers of copies."""

    def __init__(self, keys: Float[np.ndarray, "n d"], null: float):
        every = {"return_index": True, "return_inverse": True, "return_counts": True}
        self.keys, self.first, place, self.copies = np.unique(keys, axis=0, **every)
        self.place: Int[np.ndarray, " n"] = place.reshape(-1)
        self.at = coordinates.whiten(self.keys[None], null, 0.0)
        self.whitened: Float[np.ndarray, "m r"] = self.at.of(slice(None), slice(None))[0]

    def for_data(self, queries: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m d"]:
        """Turn queries for the whitened keys, shape (m, r), into queries for the original keys, shape (m, d)."""
        return np.ldexp(queries @ self.at.B[0], -self.at.exponent[0])


def _over_all_queries(
    distinct: _Distinct,
) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, "m r"]]:
    """For each whitened key the best query and Newton's step from it, which is 0 for the keys that are selectable.

    `certify` finds a query that puts a selectable key first, and a multiple of it gives the key all attention.
    """
    problem = CeilingProblem(distinct.whitened, np.log(distinct.copies), bounded=False)
    certificates = certify(distinct.whitened)
    first = (certificates.code == SELECTABLE) & certificates.queries.any(axis=1)
    query, step = minimise(problem, np.flatnonzero(~first))
    query[first] = certificates.queries[first]
    lead = certificates.margin[first] * (abs(query[first]) @ abs(distinct.whitened).max(axis=0))
    query[first] *= (clear_lead(problem.bias) / lead)[:, None]
    return query, step


def _queries_at(points, queries) -> Float[np.ndarray, "n d"]:
    """The queries of the ellipsoid at `points` of the unit ball, moved to its surface if only that has queries."""
    if not queries.filled:
        length = np.sqrt((points**2).sum(axis=1, keepdims=True))
        points = np.where(length > 0, points / np.where(length > 0, length, 1), np.eye(1, points.shape[1]))
    return queries.centre + points @ queries.axes.T


def _bounds(keys, queries, query, proof, null) -> Bounds:
    if queries is not None:
        return ceilings_bounds.over_ellipsoid(keys, queries, query, proof)
    distinct = _Distinct(keys, null)
    stored = query[distinct.first], proof[distinct.first]
    bounds = ceilings_bounds.over_all_queries(distinct.keys, distinct.whitened, distinct.copies, *stored)
    return Bounds(bounds.lower[distinct.place], bounds.upper[distinct.place])
