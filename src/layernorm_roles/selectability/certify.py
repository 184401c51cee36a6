"""Which keys can win? `certify` answers for every row of a matrix, with a proof for each answer.

Key i is selectable iff some query q gives it the strictly highest score, q.k_i > q.k_j for every other j; it is
unselectable iff it lies in the convex hull of the other keys (Brody et al. 2023, section 3.2; "unargmaxable" in
Grivas et al. 2022, who solve a linear programme for each key). Geometry decides, so coordinates may be chosen:
here the columns are brought to a common scale by powers of two, the keys centred, directions without variation
dropped, and the rest whitened, which makes the search in `search` quick. The certificates are carried back and
judged in the coordinates of the data.
"""

import sys
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numba.core import event
from numpy.typing import ArrayLike

from layernorm_roles.selectability import search
from layernorm_roles.selectability.certificates import (
    BORDERLINE,
    SELECTABLE,
    TOLERANCE,
    UNSELECTABLE,
    Certificates,
    evaluate,
)
from layernorm_roles.selectability.rational import NO_WEIGHT, in_hull_exactly

# Standard deviation, relative to the largest magnitude in the column, below which a direction is rounding noise.
_NULL = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-7}
_SMALLEST = 1e-300  # of a column's largest magnitude: float64 has full precision, and reciprocals are finite
_ENOUGH = 1000  # a search may stop at a margin this many tolerances wide; below, it looks for the widest


def certify(keys: ArrayLike, bias: ArrayLike | None = None) -> Certificates:
    """Say for each of n keys whether some query can give it the strictly highest score, with proof.

    keys (n, d): float32 or float64; the precision decides what counts as borderline, see `Certificates`. Half
    precision and integers are taken as float32 and float64. bias (n,): added to the scores, as in a softmax layer
    (score q.k_i + b_i). Exact duplicates are unselectable.

    Raises ValueError on anything that is no finite real matrix with at least one row and one column.

    >>> certificates = certify([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [1.0, 1.0]])
    >>> list(certificates.verdict)
    ['selectable', 'selectable', 'selectable', 'unselectable']
    """
    keys = _checked(keys, "keys", dimensions=2)
    if bias is not None:
        bias = _checked(bias, "bias", dimensions=1)
        if bias.shape != keys.shape[:1]:
            raise ValueError(f"bias has {len(bias)} entries: expected {len(keys)}, one for each key")
        bias = bias[None]
    many = _certify(keys[None], bias)
    arrays = {name: value[0] for name, value in vars(many).items() if name != "tolerance"}
    return Certificates(**arrays, tolerance=many.tolerance)


def certify_many(stack: ArrayLike) -> Certificates:
    """`certify` for a stack of matrices (matrices, n, d) at once; every array of the result has that leading axis.

    For small matrices this is many times faster than a loop.
    """
    return _certify(_checked(stack, "stack of keys", dimensions=3), None)


def _checked(values: ArrayLike, name: str, dimensions: int) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name}: not an array: {error}") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}: expected real numbers, float32 or float64")
    if array.ndim != dimensions:
        raise ValueError(f"{name} has shape {array.shape}: expected {dimensions} dimensions")
    if array.size == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}")
    array = array.astype(np.float32 if array.dtype in (np.float16, np.float32) else np.float64, copy=False)
    if not np.isfinite(array).all():
        where = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} has {array[where]} at {where}: expected finite numbers")
    largest = (
        abs(array).max(axis=tuple(range(array.ndim - 1))) if array.ndim > 1 else abs(array).max(keepdims=True)
    )
    if ((largest > 0) & (largest < _SMALLEST)).any():
        column = int(np.argmax((largest > 0) & (largest < _SMALLEST)))
        raise ValueError(
            f"{name}: column {column} has no entry above {largest[column]:g}: expected 0 or at least {_SMALLEST:g}, "
            "since smaller numbers lose their digits"
        )
    return array


class _Coordinates(NamedTuple):
    """A stack of keys, whitened. The bias, if any, is the last of r coordinates and of d columns."""

    W: Float[np.ndarray, "m n r"]  # columns beyond a matrix's rank are 0, so that all share an array
    B: Float[np.ndarray, "m r d"]  # q B is query q for the data's columns, each divided by 2**exponent
    exponent: Int[np.ndarray, "m d"]
    outward: Float[
        np.ndarray, "m n r"
    ]  # the keys, moved away from their mean (and up in bias) by the tolerance
    directions: Float[np.ndarray, "k m n r"]  # queries worth trying first: each key's own direction
    rank: Int[np.ndarray, " m"]


def _coordinates(keys: Float[np.ndarray, "m n d"], null: float, tolerance: float) -> _Coordinates:
    _, n, d = keys.shape
    exponent = np.frexp(abs(keys).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(keys, -exponent)  # exact
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    if n > d:
        # Eigenvectors of the covariance are accurate where its small eigenvalues are not: measure along them.
        axes = np.linalg.eigh(centred.swapaxes(1, 2) @ centred)[1][:, :, ::-1]
    else:
        axes = np.linalg.svd(centred, full_matrices=False)[2].swapaxes(1, 2)
    along = centred @ axes
    spread = np.sqrt((along**2).mean(axis=1, keepdims=True))
    kept = spread > null
    rank = kept.sum(axis=(1, 2))
    used = np.argsort(~kept, axis=2, kind="stable")[:, :, : max(1, rank.max())]
    axes, along, spread, kept = (np.take_along_axis(part, used, 2) for part in (axes, along, spread, kept))
    inverse = np.where(kept, 1 / np.where(kept, spread, 1), 0)
    W = along * inverse
    reach = abs(centred).max(axis=2, keepdims=True)
    raw = (scaled * np.exp2(2.0 * (exponent - exponent.max()))) @ axes * np.where(kept, spread, 0)
    return _Coordinates(
        W=W,
        B=(axes * inverse).swapaxes(1, 2),
        exponent=exponent[:, 0],
        outward=W * (1 + np.where(reach > 0, tolerance / np.where(reach > 0, reach, 1), 0)),
        directions=np.stack([raw, W]),
        rank=rank,
    )


def _with_bias(
    at: _Coordinates, bias: Float[np.ndarray, "m n"], null: float, tolerance: float
) -> _Coordinates:
    """One more coordinate: what the keys do not already say about the bias, since q may take up the rest."""
    exponent = np.frexp(abs(bias).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(bias, -exponent)
    scaled = scaled - scaled.mean(axis=1, keepdims=True)
    slope = at.W.swapaxes(1, 2) @ scaled[:, :, None] / bias.shape[1]  # W has covariance 1, or 0 where dropped
    rest = scaled[:, :, None] - at.W @ slope
    spread = np.sqrt((rest**2).mean(axis=1, keepdims=True))
    inverse = np.where(spread > null, 1 / np.where(spread > null, spread, 1), 0)
    unit = np.where(spread > null, inverse, 1)
    last = rest * inverse
    raised = (rest - (at.outward - at.W) @ slope + tolerance) * inverse
    r, d = at.B.shape[1:]
    B = np.zeros((len(bias), r + 1, d + 1))
    B[:, :r, :d] = at.B
    B[:, r, :d] = -((slope * unit).swapaxes(1, 2) @ at.B)[:, 0]
    B[:, r, d] = unit[:, 0, 0]
    return _Coordinates(
        W=np.concatenate([at.W, last], axis=2),
        B=B,
        exponent=np.concatenate([at.exponent, exponent], axis=1),
        outward=np.concatenate([at.outward, raised], axis=2),
        directions=np.concatenate([at.W, np.maximum(last, 0.3)], axis=2)[None],
        rank=at.rank,
    )


def _certify(keys: np.ndarray, bias: np.ndarray | None) -> Certificates:
    tolerance, null = TOLERANCE[keys.dtype], _NULL[keys.dtype]
    keys = keys.astype(np.float64, copy=False)
    matrices, n, _ = keys.shape
    at = _coordinates(keys, null, tolerance)
    data = keys
    if bias is not None:
        bias = bias.astype(np.float64, copy=False)
        at = _with_bias(at, bias, null, tolerance)
        data = np.concatenate([keys, bias[:, :, None]], axis=2)
    with event.install_listener("numba:compile", _CompilationNotice()):
        state, queries, support, weights, twin = search.decide(
            *(np.ascontiguousarray(part) for part in (at.W, at.B, at.outward, at.directions)),
            np.ascontiguousarray(data + 0.0).view(np.uint64),  # + 0.0: minus zero equals zero
            bias is not None,
            _ENOUGH * tolerance,
        )
    queries = _in_data(queries @ at.B, at.exponent, bias is not None)
    total = weights.sum(axis=2, keepdims=True)
    weights = np.divide(weights, total, out=weights, where=total > 0)
    margin, residual = evaluate(keys, bias, queries, support, weights)

    duplicate = twin >= 0
    inside = (state == search.INSIDE) & (at.rank > 0)[:, None] & (residual <= tolerance)
    code = np.full((matrices, n), BORDERLINE, np.int8)
    code[inside | duplicate] = UNSELECTABLE
    code[margin > tolerance] = SELECTABLE
    # A tie lies on a face, so fewer keys than span the space hold it; one in a full simplex is inside by rounding.
    on_face = (weights > NO_WEIGHT).sum(axis=2) <= at.rank[:, None] + (bias is not None)
    for a, i in np.argwhere((code == BORDERLINE) & (residual <= tolerance) & on_face):
        if in_hull_exactly(data[a], i, support[a, i], weights[a, i], biased=bias is not None):
            code[a, i] = UNSELECTABLE
    return Certificates(code, margin, residual, duplicate, queries, support, weights, tolerance)


class _CompilationNotice(event.Listener):
    """One line on stderr when numba compiles because nothing is cached, so that a silent wait has a reason."""

    shown = False

    def on_start(self, event):
        if not _CompilationNotice.shown:
            print("compiling the search for certificates, once (about 20 s)", file=sys.stderr, flush=True)
            _CompilationNotice.shown = True

    def on_end(self, event):
        pass


def _in_data(queries: np.ndarray, exponent: np.ndarray, biased: bool) -> np.ndarray:
    """Queries for the data's own columns: with a bias divided by its component, else of largest score about 1."""
    if biased:
        last = queries[:, :, -1:]
        fixed = np.divide(queries, last, out=np.zeros_like(queries), where=last > 0)[:, :, :-1]
        return np.ldexp(fixed, (exponent[:, -1:] - exponent[:, :-1])[:, None])
    size = abs(queries).sum(axis=2, keepdims=True)
    return np.ldexp(np.divide(queries, size, out=np.zeros_like(queries), where=size > 0), -exponent[:, None])
