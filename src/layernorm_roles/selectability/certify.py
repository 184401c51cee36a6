"""Which keys can win? `certify` answers for every row of a matrix, with a proof for each answer.

Key i is selectable iff some query q gives it the strictly highest score, q.k_i > q.k_j for every other j; it is
unselectable iff it lies in the convex hull of the other keys (Brody et al. 2023, section 3.2; "unargmaxable" in
Grivas et al. 2022, who solve a linear programme for each key). Proofs are looked for by `search` in the coordinates of
`coordinates`, then carried back and judged in the coordinates of the data.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from numpy.typing import ArrayLike

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.selectability import coordinates, directions, duplicates, search
from layernorm_roles.selectability.arrays import checked
from layernorm_roles.selectability.certificates import (
    BORDERLINE,
    SELECTABLE,
    TOLERANCE,
    UNSELECTABLE,
    Certificates,
    evaluate,
)
from layernorm_roles.selectability.leads import LARGE
from layernorm_roles.selectability.rational import NO_WEIGHT, in_hull_exactly
from layernorm_roles.selectability.simplex import surely_inside
from layernorm_roles.selectability.threads import one_thread_a_product

_ENTRIES = 1 << 20  # entries of matrices looked at together
_ENOUGH = 1000  # a search may stop at a margin this many tolerances wide; below, it looks for the widest


def certify(
    keys: ArrayLike, bias: ArrayLike | None = None, causal: bool = False, flat: bool = False
) -> Certificates:
    """Say for each of n keys whether some query can give it the strictly highest score, with proof.

    keys (n, d): float32 or float64; the precision decides what counts as borderline, see `Certificates`. Half
    precision and integers are taken as float32 and float64. bias (n,): added to the scores, as in a softmax layer
    (score q.k_i + b_i). Exact duplicates are unselectable. causal: key i has to beat the keys before it only, the ones
    that the query at its own position sees in a causal model; later queries see more, so that a key that is
    unselectable among these is out of reach for good. flat: a direction in which all keys agree to within rounding
    counts as constant, see `Certificates`.

    Raises ValueError on anything that is no finite real matrix with at least one row and one column, on integers
    beyond 2^53, and on a bias where `causal` is given, since the rows of a softmax layer have no order.

    >>> certificates = certify([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> list(certificates.verdict)
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
    shared = {"tolerance": many.tolerance, "causal": many.causal}
    arrays = {name: value[0] for name, value in vars(many).items() if name not in shared}
    return Certificates(**arrays, **shared)


def certify_many(stack: ArrayLike, causal: bool = False, flat: bool = False) -> Certificates:
    """`certify` for a stack of matrices (matrices, n, d) at once; every array of the result has that leading axis.

    For small matrices this is many times faster than a loop.
    """
    with one_thread_a_product():
        return _certify(checked(stack, "stack of keys", dimensions=3), None, causal, flat)


def _double(values: np.ndarray) -> Float[np.ndarray, "..."]:
    return values.astype(np.float64, copy=False)


class _Searched(NamedTuple):
    """What the search found, in the coordinates of the data; not judged yet."""

    state: Int8[np.ndarray, "m n"]
    queries: Float[np.ndarray, "m n d"]
    support: Int[np.ndarray, "m n s"]
    weights: Float[np.ndarray, "m n s"]
    duplicate: Bool[np.ndarray, "m n"]
    rank: Int[np.ndarray, " m"]


def _certify(keys: np.ndarray, bias: np.ndarray | None, causal: bool, flat: bool) -> Certificates:
    """Certificates for keys (m, n, d) and bias (m, n), as `checked` returns them.

    Keys in float32 are converted wherever they are needed. While no key has to be searched for, at most five arrays of
    their shape in float64 exist at once, and the last of them is filled when another is gone.
    """
    tolerance, null = TOLERANCE[keys.dtype], coordinates.NULL[keys.dtype]
    at, data = coordinates.whiten(_double(keys), null, tolerance, causal), keys
    if bias is not None:
        bias = _double(bias)
        at = coordinates.append_bias(at, bias, null, tolerance)
        data = np.concatenate([keys, bias[:, :, None]], axis=2)
    found = _search(at, keys, data, bias is not None, causal, tolerance)
    whole = _whole(at, data, bias is not None)
    # The push outwards leaves room for rounding, but not in a prefix that is flatter than all keys together.
    believed = at.sharp & np.where(whole, not causal, flat)
    del at  # as large as the keys
    margin, residual = evaluate(_double(keys), bias, found.queries, found.support, found.weights, causal)
    code = _judge(found, data, margin, residual, bias is not None, tolerance, whole, believed)
    proofs = found.queries, found.support, found.weights
    return Certificates(code, margin, residual, found.duplicate, *proofs, tolerance, causal)


def _search(
    at: coordinates.Coordinates,
    keys: Float[np.ndarray, "m n d"],
    data: Float[np.ndarray, "m n columns"],
    biased: bool,
    causal: bool,
    tolerance: float,
) -> _Searched:
    with compilation_notice("the search for certificates", seconds=20):
        # + 0.0, because minus zero equals zero.
        twin = duplicates.equal_rows(np.add(data, 0.0, dtype=np.float64, order="C").view(np.uint64), causal)
        state = np.where(twin >= 0, search.INSIDE, search.OPEN).astype(np.int8)
        if causal or keys.shape[1] == 1:
            state[:, 0] = search.SELECTABLE  # it has no rival
        queries = np.zeros(at.W.shape)
        first = coordinates.own_directions(at, _double(keys), biased)
        directions.try_directions(at, first, biased, causal, _ENOUGH * tolerance, state, queries)
        del first
        support, weights = np.zeros((*twin.shape, 1), np.int32), np.zeros((*twin.shape, 1))
        if (state == search.OPEN).any():
            size = (*twin.shape, at.W.shape[2] + 1)
            support, weights = np.zeros(size, np.int32), np.zeros(size)
            arrays = (
                *map(np.ascontiguousarray, (at.W, at.B, at.push, at.raised)),
                state,
                queries,
                support,
                weights,
            )
            if len(state) == 1 and keys.shape[1] >= LARGE and not causal:
                search.find_certificates_of_large(*arrays, biased, _ENOUGH * tolerance)
            else:
                search.find_certificates(*arrays, biased, causal, _ENOUGH * tolerance)
    support[twin >= 0, 0], weights[twin >= 0, 0] = twin[twin >= 0], 1.0
    used = max(1, int((weights > 0).sum(axis=2).max()))  # the others are 0 in all rows
    support, weights = support[:, :, :used].copy(), weights[:, :, :used].copy()
    total = weights.sum(axis=2, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total > 0)
    queries = coordinates.queries_for_data(queries, at, biased)
    return _Searched(state, queries, support, weights, twin >= 0, at.rank)


def _whole(
    at: coordinates.Coordinates, data: Float[np.ndarray, "m n columns"], biased: bool
) -> Bool[np.ndarray, " m"]:
    """Whether the search saw all of each matrix: every direction in which rows differ at all, be it by rounding."""
    differs = (data != data[:, :1]).any(axis=1)
    if not biased:
        return at.rank == np.minimum(differs.sum(axis=1), data.shape[1] - 1)
    independent = at.rank == data.shape[1] - 1  # then the keys say all about the bias
    seen = ~differs[:, -1] | at.W[:, :, -1].any(axis=1)
    return independent | ((at.rank == differs[:, :-1].sum(axis=1)) & seen)


def _judge(
    found: _Searched,
    data: Float[np.ndarray, "m n columns"],
    margin: Float[np.ndarray, "m n"],
    residual: Float[np.ndarray, "m n"],
    biased: bool,
    tolerance: float,
    whole: Bool[np.ndarray, " m"],
    believed: Bool[np.ndarray, " m"],
) -> Int8[np.ndarray, "m n"]:
    """The verdict, an index into VERDICTS, that margins and residuals prove; the rules are those of `Certificates`.

    `whole` says of which matrices the search saw all, and `believed` in which a key that it calls inside is inside.
    """
    inside = (found.state == search.INSIDE) & (found.rank > 0)[:, None] & (residual <= tolerance)
    code = np.full(found.state.shape, BORDERLINE, np.int8)
    code[inside & believed[:, None] | found.duplicate] = UNSELECTABLE
    code[margin > tolerance] = SELECTABLE
    if not biased:
        asked = inside & (whole & ~believed)[:, None] & (code == BORDERLINE)
        code[_in_a_simplex(found, data, asked)] = UNSELECTABLE
    # A tie lies on a face, so fewer keys than span the space hold it; one in a full simplex is inside by rounding.
    on_face = (found.weights > NO_WEIGHT).sum(axis=2) <= found.rank[:, None] + biased
    to_prove = on_face | inside  # where rounding was left out of the search, exactly as well
    for a, i in np.argwhere((code == BORDERLINE) & (residual <= tolerance) & to_prove).tolist():
        if in_hull_exactly(data[a], i, found.support[a, i], found.weights[a, i], biased=biased):
            code[a, i] = UNSELECTABLE
    return code


def _in_a_simplex(
    found: _Searched, data: Float[np.ndarray, "m n columns"], asked: Bool[np.ndarray, "m n"]
) -> Bool[np.ndarray, "m n"]:
    """Which of the keys `asked` for lie for sure in a simplex that the search found around them."""
    inside = np.zeros_like(asked)
    if not asked.any():
        return inside
    differs = (data != data[:, :1]).any(axis=1)
    full = asked & ((found.weights > 0).sum(axis=2) == found.rank[:, None] + 1)
    full &= (differs.sum(axis=1) == found.rank)[:, None]  # else the keys are too few to vary in all columns
    for d in np.unique(found.rank[full.any(axis=1)]).tolist():
        a, i = np.nonzero(full & (found.rank == d)[:, None])
        columns = np.argsort(~differs, axis=1, kind="stable")[:, None, :d]
        for part in np.array_split(np.arange(len(a)), -(-len(a) * (d + 1) ** 2 // _ENTRIES)):
            b, j = a[part, None], i[part]
            weights = found.weights[a[part], j]
            corners = found.support[a[part], j][weights > 0].reshape(-1, d + 1, 1)
            inside[a[part], j] = surely_inside(
                _double(data[b, j[:, None], columns[a[part], 0]]),
                _double(data[b[:, :, None], corners, columns[a[part]]]),
            )
    return inside
