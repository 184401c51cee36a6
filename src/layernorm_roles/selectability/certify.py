"""`certify` says for every row of a matrix, a key, whether some query gives it the highest score, each time with proof.

Key i is selectable iff some query q gives it the strictly highest score, q.k_i > q.k_j for every other j; it is
unselectable iff it lies in the convex hull of the other keys (Brody et al. 2023, section 3.2; "unargmaxable" in Grivas
et al. 2022). `search` looks for proofs in whitened coordinates; they are verified in those of the data.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from numpy.typing import ArrayLike

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.selectability import coordinates, directions, search
from layernorm_roles.selectability.arrays import Flags, Keys, Numbers, Rows, checked, double, row_blocks
from layernorm_roles.selectability.boundary import NO_WEIGHT, in_hull_exactly, surely_inside
from layernorm_roles.selectability.certificates import (
    BORDERLINE,
    SELECTABLE,
    TOLERANCE,
    UNSELECTABLE,
    Certificates,
    evaluate,
)
from layernorm_roles.selectability.leads import LARGE
from layernorm_roles.selectability.threads import one_thread_a_product
from layernorm_roles.slices import slices

_ENTRIES = 1 << 20  # entries of the matrices that are inverted at once
_RANGE = 60  # float32 holds queries for keys whose columns have magnitudes within 2**60 of 1
_ROUNDING = 2.0**-22  # rounding a query to float32 moves its margin by less
_ENOUGH = 1000  # a search ends at a margin of so many tolerances, and else looks for the widest


def certify(
    keys: ArrayLike, bias: ArrayLike | None = None, causal: bool = False, flat: bool = False
) -> Certificates:
    """Decide for each of n keys whether some query can give it the strictly highest score, with a proof.

    `keys` (n, d) are float32 or float64, and this precision decides what counts as borderline (see `Certificates`).
    float16 becomes float32, and integers become float64. Exact duplicates are unselectable. `bias` (n,) is added to the
    scores, q.k_i + b_i, as in a softmax layer. With `causal`, key i has to beat only the keys before it, as in a causal
    model, where later queries see more keys. With `flat`, a direction in which all keys agree to within rounding counts
    as constant.

    Raises ValueError unless the keys are a matrix of finite real numbers with at least one row and one column, for
    integers beyond 2^53, and for a bias together with `causal`, since the rows of a softmax layer have no order.

    >>> certificates = certify([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> certificates.verdict.tolist()
    ['selectable', 'selectable', 'selectable', 'unselectable']
    """
    keys = checked(keys, "keys", dimensions=2)
    if bias is not None:
        if causal:
            raise ValueError("causal = True with a bias: expected one of the two")
        bias = checked(bias, "bias", dimensions=1)
        if bias.shape != keys.shape[:1]:
            raise ValueError(f"bias has {len(bias)} entries: expected {len(keys)}, one for each key")
        coordinates.refuse_incomparable(keys, bias)
        bias = bias[None]
    with one_thread_a_product():
        many = _certify(keys[None], bias, causal, flat)
    arrays = {name: value[0] for name, value in vars(many).items() if isinstance(value, np.ndarray)}
    return replace(many, **arrays)


def certify_many(stack: ArrayLike, causal: bool = False, flat: bool = False) -> Certificates:
    """Decide for each key of many matrices whether some query gives it the highest score in its matrix, with a proof.

    `stack` (matrices, n, d) holds the keys, and arrays in the result have a first axis for the matrices, too. With
    `causal`, a key has to beat only the keys before it. With `flat`, a direction in which all keys agree to within
    rounding counts as constant. Raises ValueError on anything but finite real numbers. For small matrices, one call is
    many times faster than a loop with `certify`.
    """
    with one_thread_a_product():
        return _certify(checked(stack, "stack of keys", dimensions=3), None, causal, flat)


class _Searched(NamedTuple):
    """Proofs for the n keys of size d of m matrices, as the search for certificates found them, not yet verified."""

    state: Int8[np.ndarray, "m n"]
    queries: Float[np.ndarray, "m n d"]
    support: Int[np.ndarray, "m n s"]
    weights: Float[np.ndarray, "m n s"]
    duplicate: Bool[np.ndarray, "m n"]
    rows: Int[np.ndarray, " k"]
    """Indices of the k keys searched for, because no guessed query or equal key settled them in every matrix."""
    exact: Float[np.ndarray, "m k d"]
    """The queries of the k keys `rows`, in float64."""
    rank: Int[np.ndarray, " m"]
    """Number of coordinates, without a bias's, in which the keys of each matrix vary; 0 if keys were not whitened."""
    sharp: Bool[np.ndarray, " m"]
    """For each matrix, whether rounding in the search is too small to matter, see `Coordinates.sharp`."""
    whole: Bool[np.ndarray, " m"]
    """For each matrix, whether the search saw every direction in which its rows differ at all, be it by rounding."""


def _certify(keys: np.ndarray, bias: np.ndarray | None, causal: bool, flat: bool) -> Certificates:
    """`Certificates` for finite float32 or float64 keys (m, n, d) and a bias (m, n) or None."""
    tolerance = TOLERANCE[keys.dtype]
    bias = None if bias is None else double(bias)
    result = _search(keys, bias, causal)
    proofs = result.support, result.weights
    margin, residual = evaluate(keys, bias, result.queries, *proofs, causal)
    if result.queries.dtype == np.float32 and (abs(margin[:, result.rows] - tolerance) < _ROUNDING).any():
        result = result._replace(queries=double(result.queries))
        result.queries[:, result.rows] = result.exact
        margin, residual = evaluate(keys, bias, result.queries, *proofs, causal)
    # In which matrices a key that the search calls inside is inside: the push outwards makes up for rounding, but
    # not in a prefix that is flatter than all keys together.
    believed = result.sharp & np.where(result.whole, not causal, flat)
    code = _verdicts(result, believed, keys, bias, margin, residual)
    return Certificates(code, margin, residual, result.duplicate, result.queries, *proofs, tolerance, causal)


def _search(keys: Keys, bias: Numbers | None, causal: bool) -> _Searched:
    (m, n, d), tolerance = keys.shape, TOLERANCE[keys.dtype]
    with compilation_notice("the search for certificates", seconds=20):
        twin = _twins(_with_bias(keys, bias), causal)
        state = np.where(twin >= 0, search.INSIDE, search.OPEN).astype(np.int8)
        if causal or n == 1:
            state[:, 0] = search.SELECTABLE  # it has no rival
        queries = np.zeros(keys.shape, _precision(keys, bias))
        known = directions.Directions(keys, bias, causal, _ENOUGH * tolerance, state, queries)
        if bias is None:
            known.try_keys()
        rows, exact = np.empty(0, int), np.empty((m, 0, d))
        others, mean = np.empty((m, 0, 1), int), np.empty((m, 0, 1))
        rank, sharp, whole = np.zeros(m, int), np.zeros(m, bool), np.zeros(m, bool)
        if (state == search.OPEN).any():
            at = coordinates.whiten(keys, coordinates.NULL[keys.dtype], tolerance, causal)
            if bias is not None:
                at = coordinates.append_bias(at, bias, coordinates.NULL[keys.dtype], tolerance)
            known.try_whitened(at)
            rank, whole = at.rank, _whole(at, keys, bias)
        if (state == search.OPEN).any():
            rows = np.flatnonzero((state == search.OPEN).any(axis=0))
            asked = state[:, rows] == search.OPEN
            sharp, exact, others, mean = _search_open(at, state, rows, bias is not None, causal, tolerance)
            exact[~asked] = queries[:, rows][~asked]
            queries[:, rows] = exact
    support, weights = (np.zeros((m, n, mean.shape[2]), kind) for kind in (np.int32, float))
    a, k = np.nonzero(mean.any(axis=2))
    support[a, rows[k]] = others[a, k]
    weights[a, rows[k]] = mean[a, k] / mean[a, k].sum(axis=1, keepdims=True)
    support[twin >= 0, 0], weights[twin >= 0, 0] = twin[twin >= 0], 1.0
    return _Searched(state, queries, support, weights, twin >= 0, rows, exact, rank, sharp, whole)


def _twins(rows: Float[np.ndarray, "m n c"], causal: bool) -> Int[np.ndarray, "m n"]:
    """For each row the index of the first equal row of its matrix, if `causal` of those before it; -1 if none."""
    m, n, c = rows.shape
    twin, at = np.full(m * n, -1), np.arange(m * n)  # the rows that equal another one in all columns so far
    group = at // n  # a number for each set of rows that are equal so far; rows of a set are in order
    for column in rows.reshape(-1, c).T:
        order = np.lexsort((column[at], group))
        at, group, entries = at[order], group[order], column[at[order]]
        new = np.diff(group, prepend=-1) != 0
        new[1:] |= entries[1:] != entries[:-1]
        group = np.cumsum(new)
        shared = np.bincount(group)[group] > 1
        at, group = at[shared], group[shared]
    first = np.flatnonzero(np.diff(group, prepend=-1))
    twin[at] = np.repeat(at[first], np.diff(first, append=len(at))) % n
    twin[at[first]] = -1 if causal else at[first + 1] % n
    return twin.reshape(m, n)


def _precision(keys: Keys, bias: Numbers | None) -> type:
    """The type of queries: float32 for float32 keys of moderate size without a bias, else float64."""
    usual = bias is None and abs(coordinates.exponents(keys)).max() <= _RANGE
    return np.float32 if keys.dtype == np.float32 and usual else np.float64


def _with_bias(keys: Keys, bias: Numbers | None) -> Float[np.ndarray, "m n c"]:
    return keys if bias is None else np.concatenate([keys, bias[:, :, None]], axis=2)


def _search_open(
    at: coordinates.Coordinates, state: np.ndarray, rows: Rows, biased: bool, causal: bool, tolerance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Search for proofs of the keys whose `state` (m, n) is OPEN, all of them among k `rows`; update `state`."""
    (m, n), r, every = state.shape, at.B.shape[1], slice(None)
    large = m == 1 and n >= LARGE and not causal
    # Of a large matrix the keys known to be selectable come first.
    order = np.argsort(state[0] != search.SELECTABLE, kind="stable") if large else np.arange(n)
    known = int((state[0] == search.SELECTABLE).sum()) if large else 0
    everything = np.empty((m, r + 1, n))
    for part in row_blocks(n, m * r):
        everything[:, :r, part] = at.of(every, order[part]).swapaxes(1, 2)
    everything[:, r] = 0.5 * np.einsum("mrn,mrn->mn", everything[:, :r], everything[:, :r])
    sharp = at.sharp(everything[:, : r - biased])
    place = np.zeros((m, n), int)
    place[:, rows] = np.arange(len(rows))
    own, place, push, raised = (
        np.ascontiguousarray(part[:, order]) for part in (state, place, at.push, at.raised)
    )
    size = (m, len(rows), r + 1)
    proofs = search.Proofs(own, place, np.zeros((m, len(rows), r)), np.zeros(size, np.int32), np.zeros(size))
    arrays = everything, np.ascontiguousarray(at.B), push, raised
    problem = search.Problem(*arrays, biased, causal, _ENOUGH * tolerance, known)
    (search.find_certificates_of_large if large else search.find_certificates)(problem, proofs)
    state[:, order] = own
    used = max(1, int((proofs.weights > 0).sum(axis=2).max()))  # the others are 0 in all rows
    support = order[proofs.support[:, :, :used]].astype(np.int32)
    return sharp, at.answers(proofs.queries), support, proofs.weights[:, :, :used].copy()


def _whole(at: coordinates.Coordinates, keys: Keys, bias: Numbers | None) -> Bool[np.ndarray, " m"]:
    """For each matrix, whether the coordinates see every direction in which its rows differ, be it by rounding."""
    n, differing = keys.shape[1], coordinates.varying(keys).sum(axis=1)
    if bias is None:
        return at.rank == np.minimum(differing, n - 1)
    independent = at.rank == n - 1  # then the keys say all about the bias
    seen = (bias.max(axis=1) == bias.min(axis=1)) | at.last.any(axis=1)
    return independent | ((at.rank == differing) & seen)


def _verdicts(
    result: _Searched,
    believed: np.ndarray,
    keys: Keys,
    bias: Numbers | None,
    margin: Numbers,
    residual: Numbers,
) -> Int8[np.ndarray, "m n"]:
    """For each key the index into VERDICTS of what its margin and residual prove, by the rules of `Certificates`."""
    biased, tolerance = bias is not None, TOLERANCE[keys.dtype]
    inside = (result.state == search.INSIDE) & (result.rank > 0)[:, None] & (residual <= tolerance)
    code = np.full(result.state.shape, BORDERLINE, np.int8)
    code[inside & believed[:, None] | result.duplicate] = UNSELECTABLE
    code[margin > tolerance] = SELECTABLE
    if not biased:
        asked = inside & (result.whole & ~believed)[:, None] & (code == BORDERLINE)
        code[_in_a_simplex(result, keys, asked)] = UNSELECTABLE
    data = _with_bias(keys, bias)
    for a, i in np.argwhere((code == BORDERLINE) & (residual <= tolerance)).tolist():
        support, weights = result.support[a, i], result.weights[a, i]
        # A tie lies on a face, so fewer keys than span the space hold it; one in a full simplex is inside by
        # rounding. Where rounding was left out of the search, that is asked exactly as well.
        on_face = (weights > NO_WEIGHT).sum() <= result.rank[a] + biased
        if (on_face or inside[a, i]) and in_hull_exactly(data[a], i, support, weights, biased=biased):
            code[a, i] = UNSELECTABLE
    return code


def _in_a_simplex(result: _Searched, keys: Keys, asked: Flags) -> Flags:
    """Which of the keys `asked` for lie, despite rounding, in the simplex that the search found around them."""
    inside = np.zeros_like(asked)
    if not asked.any():
        return inside
    differs = coordinates.varying(keys)
    full = asked.copy()
    full[asked] = (result.weights[asked] > 0).sum(axis=1) == result.rank[np.nonzero(asked)[0]] + 1
    full &= (differs.sum(axis=1) == result.rank)[:, None]  # else the keys are too few to vary in all columns
    for d in np.unique(result.rank[full.any(axis=1)]).tolist():
        a, i = np.nonzero(full & (result.rank == d)[:, None])
        columns = np.argsort(~differs, axis=1, kind="stable")[:, None, :d]
        for part in slices(len(a), _ENTRIES // (d + 1) ** 2):
            b, j = a[part], i[part]
            corners = result.support[b, j][result.weights[b, j] > 0].reshape(-1, d + 1, 1)
            inside[b, j] = surely_inside(
                double(keys[b[:, None], j[:, None], columns[b, 0]]),
                double(keys[b[:, None, None], corners, columns[b]]),
            )
    return inside
