"""The majority model's loss and gradients on one CPU core, backward written by hand and compiled by numba.

Equal tokens share one representation (there are no positions), so a sequence is its vector n_b of class counts and
the work is over pairs (sequence b, class c present in it). With U'_j = (u_j, 1), the value extended by a one:

    (S, D) = sum_j n_bj A_cj U'_j                       attention: weighted values S, weights D
    y = E_c + b_o + S / D                               residual stream
    x = (y - mean y) / std y,  z = g x + b              LayerNorm, eps 0
    r = y + W_2 relu(W_1 z + b_1) + b_2                 feed-forward
    l = E r                                             logits, tied readout
    loss = sum_bc n_bc (log sum_k exp l_k - l_label) / tokens

The vectors h = norm1(E) come from outside, so nothing here knows the norm; A and u follow from them as in
`model.attention_and_values`. Gradients are with respect to each table, h among them; the embedding's covers the
residual stream and the readout.

How it is fast: pairs of one class are taken in blocks of `BLOCK`, an array holds one feature a row and one pair a
column, rows begin where a cache line does, and every inner loop runs along a row, so that LLVM vectorises it. How
it is exact: sums over pairs are in the tables' dtype within a block and in float64 across blocks, and so is all
that is done once a batch. One thread: the result depends on nothing else, and several runs are several processes.
The first call ever compiles (about 20 s); numba keeps the result on disk.
"""

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from numba import njit, types
from numba.core import event
from numba.extending import overload, register_jitable

from layernorm_roles.majority.model import Tables

BLOCK = 256
"""Pairs in a block: a block's arrays stay in the second-level cache, its rows in the first."""

ROWS, COLUMNS = 2, 4
"""A product's tile: its eight products share six loads, and its weights stay in registers."""

CACHE_LINE = 64
"""Bytes."""

# Sums may be reordered, products fused and divisions made reciprocals; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

# What is called from compiled code: without FASTMATH it gives the same numbers wherever it is compiled. With it, it
# is inlined: a process that compiles would else run another copy of it, with other roundings, than one that loads
# `_sweep` from numba's cache.
exactly = njit(error_model="numpy")
compiled = njit(fastmath=FASTMATH, error_model="numpy", forceinline=True)


class Sizes(NamedTuple):
    """Classes, size of the residual stream, hidden units of the feed-forward part."""

    classes: int
    d: int
    f: int

    @property
    def shapes(self) -> Tables:
        """Of each table."""
        classes, d, f = self
        return Tables(
            (classes, d), (classes, d), (3 * d, d), (d, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)
        )

    @property
    def entries(self) -> list[int]:
        """Of each table."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def total(self) -> int:
        """Of all tables."""
        return sum(self.entries)


def loss_and_gradients(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int, Tables]:
    """Mean cross-entropy in nats per token, number of tokens predicted correctly, and d loss / d table.

    `tables` are arrays in the order of `model.Tables`, all float32 or all float64; the gradients have their dtype.
    Raises ValueError if a shape or dtype does not fit.
    """
    flat, sizes = _flattened(tables)
    loss, correct, gradient = flat_gradient(counts, label, flat, sizes)
    parts = np.split(gradient, np.cumsum(sizes.entries)[:-1])
    return loss, correct, Tables(*map(np.reshape, parts, sizes.shapes))


def loss_only(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int]:
    """Loss and correct tokens of `loss_and_gradients`, the same to the bit, without its backward."""
    loss, correct, _ = flat_gradient(counts, label, *_flattened(tables), backward=False)
    return loss, correct


def flat_gradient(
    counts: UInt8[np.ndarray, "B C"],
    label: Int[np.ndarray, " B"],
    flat: Float[np.ndarray, " entries"],
    sizes: Sizes,
    backward: bool = True,
) -> tuple[float, int, Float[np.ndarray, " entries"]]:
    """`loss_and_gradients` for tables that lie one after the other in a vector, and so does the gradient."""
    classes, dtype = sizes.classes, flat.dtype
    if len(flat) != sizes.total:
        raise ValueError(f"tables of {len(flat)} entries together: expected {sizes.total} for {sizes}")
    counts, label = _plain(counts), _plain(label, np.int64)
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or not counts.any():
        raise ValueError(
            f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences, {classes}), not all 0"
        )
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    lacking = -classes % COLUMNS
    words = (np.pad(counts, [(0, 0), (0, lacking)]) if lacking else counts).view(np.int32)
    gradient = np.zeros(len(flat))
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct, tokens = _sweep(
            counts, words, label, flat.astype(np.float64), *sizes, _block(*sizes, dtype), gradient, backward
        )
    return loss / tokens, correct, (gradient / tokens).astype(dtype)


def _flattened(tables: Sequence[Float[np.ndarray, "..."]]) -> tuple[Float[np.ndarray, " entries"], Sizes]:
    tables = Tables(*map(np.asarray, tables))
    sizes, dtype = Sizes(*tables.embedding.shape, len(tables.b1)), tables.embedding.dtype
    for name, table, shape in zip(Tables._fields, tables, sizes.shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    return np.concatenate([table.ravel() for table in tables]), sizes


def _plain(array: np.ndarray, dtype: type | None = None) -> np.ndarray:
    """`array` in the layout that is compiled for: contiguous and writable."""
    array = np.asarray(array, dtype)
    return array if array.flags.carray else np.array(array, order="C")


class _CompilationNotice(event.Listener):
    """One line on stderr when numba compiles because nothing is cached, so that a silent wait has a reason."""

    shown = False

    def on_start(self, event):
        if not _CompilationNotice.shown:
            print("compiling the majority kernel, once (about 20 s)", file=sys.stderr, flush=True)
            _CompilationNotice.shown = True

    def on_end(self, event):
        pass


# ---- The small algebra around the pairs, once a batch: O(C^2 d), in float64.


class Weights(NamedTuple):
    """What the pairs need of the tables, or (float64) the gradient with respect to it.

    Padded with zeros to whole tiles: C, d and f to a multiple of `COLUMNS`, d + 1 to one of `ROWS`.
    """

    attention: Float[np.ndarray, "C d+1 C"]  # attention[c, :, j] = A_cj U'_j
    start: Float[np.ndarray, "C d"]  # E + b_o; not padded
    w1: Float[np.ndarray, "f d"]  # W_1 diag(g): the second norm's gain and bias belong to the layer after it
    b1: Float[np.ndarray, " f"]  # W_1 b + b_1
    w2: Float[np.ndarray, "d f"]
    b2: Float[np.ndarray, " d"]
    embedding: Float[np.ndarray, "C d"]  # the readout


class Attention(NamedTuple):
    """Attention between classes, as `model.attention_and_values` computes it."""

    q: Float[np.ndarray, "C d"]
    k: Float[np.ndarray, "C d"]
    v: Float[np.ndarray, "C d"]
    a: Float[np.ndarray, "C C"]
    u: Float[np.ndarray, "C d"]


@exactly
def _tables(flat, classes, d, f):
    """The tables, or gradients with respect to them, that lie one after the other in `flat`; W_Q, W_K, W_V apart."""
    cd, dd, df = classes * d, d * d, d * f
    at = 2 * cd + 4 * dd
    return Tables(
        flat[:cd].reshape(classes, d),  # normed
        flat[cd : 2 * cd].reshape(classes, d),
        flat[2 * cd : at - dd].reshape(3, d, d),
        flat[at - dd : at].reshape(d, d),
        flat[at : at + d],
        flat[at + d : at + 2 * d],
        flat[at + 2 * d : at + 3 * d],
        flat[at + 3 * d : at + 3 * d + df].reshape(f, d),
        flat[at + 3 * d + df : at + 3 * d + df + f],
        flat[at + 3 * d + df + f : at + 3 * d + 2 * df + f].reshape(d, f),
        flat[at + 3 * d + 2 * df + f :],
    )


@exactly
def _add_product(a, b, out):
    """out += a @ b."""
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


@exactly
def _attend(t):
    classes, d = t.normed.shape
    qkvu, a = np.zeros((4, classes, d)), np.zeros((classes, classes))
    for part in range(3):
        _add_product(t.normed, t.in_weight[part].T, qkvu[part])
    q, k, v, u = qkvu[0], qkvu[1], qkvu[2], qkvu[3]
    _add_product(v, t.out_weight.T, u)
    _add_product(q, k.T, a)
    for c in range(classes):
        largest = a[c].max()
        for j in range(classes):
            a[c, j] = math.exp((a[c, j] - largest) / math.sqrt(d))
    return Attention(q, k, v, a, u)


@exactly
def _weights(classes, d, f, dtype):
    extended, classes_, d_, f_ = _padded(classes, d, f)
    return Weights(
        np.zeros((classes, extended, classes_), dtype),
        np.zeros((classes, d), dtype),
        np.zeros((f_, d_), dtype),
        np.zeros(f_, dtype),
        np.zeros((d_, f_), dtype),
        np.zeros(d_, dtype),
        np.zeros((classes_, d_), dtype),
    )


@register_jitable
def _padded(classes, d, f):
    """d + 1, C, d and f, in whole tiles."""
    return _up(d + 1, ROWS), _up(classes, COLUMNS), _up(d, COLUMNS), _up(f, COLUMNS)


@register_jitable
def _up(size, multiple):
    return -(-size // multiple) * multiple


@exactly
def _fold(t, s, w):
    """The weights `w` of the tables `t` with attention `s`."""
    (classes, d), f = t.embedding.shape, len(t.b1)
    for c in range(classes):
        for j in range(classes):
            for i in range(d):
                w.attention[c, i, j] = s.a[c, j] * s.u[j, i]
            w.attention[c, d, j] = s.a[c, j]
        for i in range(d):
            w.start[c, i] = t.embedding[c, i] + t.out_bias[i]
            w.embedding[c, i] = t.embedding[c, i]
    for h in range(f):
        bias = t.b1[h]
        for i in range(d):
            bias += t.w1[h, i] * t.norm_bias[i]
            w.w1[h, i] = t.w1[h, i] * t.norm_gain[i]
            w.w2[i, h] = t.w2[i, h]
        w.b1[h] = bias
    for i in range(d):
        w.b2[i] = t.b2[i]


@exactly
def _unfold(g, t, s, out):
    """The chain rule of `_attend` and `_fold`: `out`, with respect to the tables, from `g`, to the weights."""
    (classes, d), f = t.embedding.shape, len(t.b1)
    d_scores, d_qkvu = np.zeros((classes, classes)), np.zeros((4, classes, d))
    d_q, d_k, d_v, d_u = d_qkvu[0], d_qkvu[1], d_qkvu[2], d_qkvu[3]
    for c in range(classes):
        for j in range(classes):
            d_a = g.attention[c, d, j]
            for i in range(d):
                d_a += g.attention[c, i, j] * s.u[j, i]
                d_u[j, i] += g.attention[c, i, j] * s.a[c, j]
            d_scores[c, j] = d_a * s.a[c, j] / math.sqrt(d)
        for i in range(d):
            out.embedding[c, i] = g.embedding[c, i] + g.start[c, i]
            out.out_bias[i] += g.start[c, i]
    _add_product(d_scores, s.k, d_q)
    _add_product(d_scores.T, s.q, d_k)
    _add_product(d_u, t.out_weight, d_v)
    _add_product(d_u.T, s.v, out.out_weight)
    for part in range(3):
        _add_product(d_qkvu[part], t.in_weight[part], out.normed)
        _add_product(d_qkvu[part].T, t.normed, out.in_weight[part])
    for h in range(f):
        out.b1[h] = g.b1[h]
        for i in range(d):
            out.w1[h, i] = g.w1[h, i] * t.norm_gain[i] + g.b1[h] * t.norm_bias[i]
            out.norm_gain[i] += g.w1[h, i] * t.w1[h, i]
            out.norm_bias[i] += g.b1[h] * t.w1[h, i]
            out.w2[i, h] = g.w2[i, h]
    for i in range(d):
        out.b2[i] = g.b2[i]


class Block(NamedTuple):
    """The arrays of one block of pairs: a feature a row, padded as in `Weights`, and a pair a column."""

    counts: Float[np.ndarray, "C pairs"]
    tokens: Float[np.ndarray, " pairs"]  # n_bc; 0 for a pair that only fills the block
    label: Int[np.ndarray, " pairs"]
    attended: Float[np.ndarray, "d+1 pairs"]  # S; then, in its last row, 1 / D
    stream: Float[np.ndarray, "d pairs"]  # y, then r
    normed: Float[np.ndarray, "d pairs"]  # x
    per_std: Float[np.ndarray, " pairs"]  # 1 / std y
    hidden: Float[np.ndarray, "f pairs"]  # h = relu(W_1 z + b_1)
    logits: Float[np.ndarray, "C pairs"]  # l, then exp(l - max l), then the gradient with respect to l
    d_stream: Float[np.ndarray, "d pairs"]  # gradients with respect to r, then y, and to the others by name
    d_hidden: Float[np.ndarray, "f pairs"]
    d_normed: Float[np.ndarray, "d pairs"]
    d_attended: Float[np.ndarray, "d+1 pairs"]
    mean: Float[np.ndarray, " pairs"]  # scratch from here on; rows of one array would not vectorise
    largest: Float[np.ndarray, " pairs"]
    total: Float[np.ndarray, " pairs"]
    arg: Int[np.ndarray, " pairs"]
    word: Int[np.ndarray, " pairs"]
    zeros: Float[np.ndarray, " C|d|f"]  # where a layer has no bias
    no_class: Float[np.ndarray, " C"]  # bias of the logits: 0, and -inf for the padding


@lru_cache
def _block(classes: int, d: int, f: int, dtype: np.dtype) -> Block:
    """The same memory for every call with these sizes: it is used under the interpreter's lock."""
    present = classes
    extended, classes, d, f = _padded(classes, d, f)
    no_class = np.zeros(classes, dtype)
    no_class[present:] = -np.inf

    def rows(*number):
        # Vectors are wider than numpy's alignment: across a border of cache lines each read of one would be two.
        size = BLOCK * math.prod(number)
        longer = np.zeros(size + CACHE_LINE, dtype)
        start = -longer.ctypes.data % CACHE_LINE // dtype.itemsize
        return longer[start : start + size].reshape(*number, BLOCK)

    return Block(
        counts=rows(classes),
        tokens=rows(),
        label=np.zeros(BLOCK, np.int32),
        attended=rows(extended),
        stream=rows(d),
        normed=rows(d),
        per_std=rows(),
        hidden=rows(f),
        logits=rows(classes),
        d_stream=rows(d),
        d_hidden=rows(f),
        d_normed=rows(d),
        d_attended=rows(extended),
        mean=rows(),
        largest=rows(),
        total=rows(),
        arg=np.zeros(BLOCK, np.int32),
        word=np.zeros(BLOCK, np.int32),
        zeros=np.zeros(max(classes, d, f, extended), dtype),
        no_class=no_class,
    )


# ---- Products, in tiles of `ROWS` rows of the result by `COLUMNS` rows of the argument.


@compiled
def _quad(weight, i, k):
    return weight[i, k], weight[i, k + 1], weight[i, k + 2], weight[i, k + 3]


@compiled
def _dot(quad, x, k, p):
    return quad[0] * x[k, p] + quad[1] * x[k + 1, p] + quad[2] * x[k + 2, p] + quad[3] * x[k + 3, p]


@compiled
def _affine(weight, bias, x, out):
    """out = weight @ x + bias."""
    rows, columns = weight.shape
    for i in range(0, rows, ROWS):
        bias0, bias1 = bias[i], bias[i + 1]
        quad0, quad1 = _quad(weight, i, 0), _quad(weight, i + 1, 0)
        for p in range(BLOCK):
            out[i, p] = bias0 + _dot(quad0, x, 0, p)
            out[i + 1, p] = bias1 + _dot(quad1, x, 0, p)
        for k in range(COLUMNS, columns, COLUMNS):
            quad0, quad1 = _quad(weight, i, k), _quad(weight, i + 1, k)
            for p in range(BLOCK):
                out[i, p] += _dot(quad0, x, k, p)
                out[i + 1, p] += _dot(quad1, x, k, p)


@compiled
def _plus(quad, y, x, k, p):
    a, b, c, d = quad
    return a + y * x[k, p], b + y * x[k + 1, p], c + y * x[k + 2, p], d + y * x[k + 3, p]


@compiled
def _add_products(y, x, total):
    """total += y @ x.T, summed over the block's pairs in the dtype of `x`, added in that of `total`."""
    rows, columns = total.shape
    zero = x.dtype.type(0)
    for i in range(0, rows, ROWS):
        for k in range(0, columns, COLUMNS):
            quad0 = quad1 = zero, zero, zero, zero
            for p in range(BLOCK):
                quad0 = _plus(quad0, y[i, p], x, k, p)
                quad1 = _plus(quad1, y[i + 1, p], x, k, p)
            for j in range(COLUMNS):
                total[i, k + j] += quad0[j]
                total[i + 1, k + j] += quad1[j]


@compiled
def _add_sums(y, total):
    """total += the sum over the block's pairs of each row of `y`."""
    for i in range(len(total)):
        row = y.dtype.type(0)
        for p in range(BLOCK):
            row += y[i, p]
        total[i] += row


# ---- Exponential and logarithm without branch or call, so that they vectorise.


def _exp(x):
    """exp(x) for x <= 0, to 1 unit in the last place; 0 below the smallest normal number; NaN stays NaN."""


def _log(x):
    """log(x) for x >= 1, to 3 units in the last place; NaN stays NaN."""


_LAYOUT = {
    # type: its class, integer of that size, bits of the mantissa, bias of the exponent, log of the smallest normal
    # number rounded up, ln(2) in two parts of which the first times an exponent is exact, degrees of the series
    types.float32: (np.float32, np.int32, 23, 127, -87.0, 0.693359375, -2.12194440054690583e-4, 7, 9),
    types.float64: (
        np.float64, np.int64, 52, 1023, -708.0, 6.93147180369123816490e-1, 1.90821492927058770002e-10, 13, 21,
    ),
}  # fmt: skip


# Not "reassoc": it would put the two parts of ln 2 together again.
STRICT = {"fastmath": FASTMATH - {"reassoc", "arcp"}, "error_model": "numpy", "forceinline": True}


@overload(_exp, jit_options=STRICT)
def _exp_of_type(x):
    float_, int_, mantissa, bias, lowest, high, low, degree, _ = _LAYOUT[x]
    mantissa, bias, lowest, high, low = int_(mantissa), int_(bias), float_(lowest), float_(high), float_(low)
    per_ln2, half, zero = float_(1 / math.log(2)), float_(0.5), float_(0)
    last, *taylor = (float_(1 / math.factorial(k)) for k in range(degree, -1, -1))
    taylor = tuple(taylor)

    def exp(x):
        # exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2: Taylor's series for exp(r), 2^n by its bits.
        n = int_((x if x > lowest else lowest) * per_ln2 - half)  # truncated towards zero, and x <= 0
        m = float_(n)
        r = (x - m * high) - m * low
        y = last
        for coefficient in taylor:
            y = y * r + coefficient
        return zero if x < lowest else y * int_((n + bias) << mantissa).view(float_)

    return exp


@overload(_log, jit_options=STRICT)
def _log_of_type(x):
    float_, int_, mantissa, _, _, high, low, _, degree = _LAYOUT[x]
    mantissa, ln2, one, infinity = int_(mantissa), float_(high + low), float_(1), float_(np.inf)
    root_half = float_(math.sqrt(0.5)).view(int_)
    last, *series = (float_(2 / k) for k in range(degree, 0, -2))
    series = tuple(series)

    def log(x):
        # log(x) = n log 2 + log(m), 1/2 <= m^2 < 2; log(m) = 2 artanh(z) = 2 (z + z^3 / 3 + ...), z = (m-1) / (m+1).
        bits = float_(x).view(int_)
        n = (bits - root_half) >> mantissa
        m = int_(bits - (n << mantissa)).view(float_)
        z = (m - one) / (m + one)
        y = last
        for coefficient in series:
            y = y * (z * z) + coefficient
        return float_(n) * ln2 + y * z if x < infinity else x

    return log


# ---- Forward. Small functions with few arrays: LLVM vectorises their loops and gives up on larger ones.


@compiled
def _load(pairs, used, c, words, label, b):
    """Counts, weights and labels of `used` pairs of class `c`; those after them fill the block with weight 0."""
    for p in range(BLOCK):
        b.label[p] = label[pairs[p]]
    for k in range(words.shape[1]):
        for p in range(BLOCK):
            b.word[p] = words[pairs[p], k]
        for j in range(4):
            _unpack(b.word, np.int32(8 * j), b.counts[4 * k + j])
    b.tokens[:used] = b.counts[c, :used]
    b.tokens[used:] = 0


@compiled
def _unpack(word, shift, byte):
    for p in range(BLOCK):
        byte[p] = (word[p] >> shift) & np.int32(255)


@compiled
def _residual(start, attended, y, mean):
    """y = E_c + b_o + S / D; leaves 1 / D in the place of D, and the mean of y over its features in `mean`."""
    d = len(start)
    one = y.dtype.type(1)
    per_d = one / y.dtype.type(d)
    for p in range(BLOCK):
        attended[d, p] = one / attended[d, p]
        mean[p] = 0
    for i in range(d):
        for p in range(BLOCK):
            y[i, p] = start[i] + attended[i, p] * attended[d, p]
            mean[p] += y[i, p] * per_d


@compiled
def _normalise(y, mean, x, per_std):
    """x = (y - mean) / std."""
    one = y.dtype.type(1)
    per_d = one / y.dtype.type(len(y))
    for p in range(BLOCK):
        per_std[p] = 0
    for i in range(len(y)):
        for p in range(BLOCK):
            x[i, p] = y[i, p] - mean[p]
            per_std[p] += x[i, p] * x[i, p] * per_d
    for p in range(BLOCK):
        per_std[p] = one / math.sqrt(per_std[p])
    for i in range(len(y)):
        for p in range(BLOCK):
            x[i, p] *= per_std[p]


@compiled
def _relu(h):
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            h[i, p] = zero if h[i, p] < zero else h[i, p]


@compiled
def _add(x, out):
    for i in range(len(x)):
        for p in range(BLOCK):
            out[i, p] += x[i, p]


@compiled
def _forward(c, w, b):
    """The logits l of a block of class `c`."""
    d = w.start.shape[1]
    _affine(w.attention[c], b.zeros, b.counts, b.attended)
    _residual(w.start[c], b.attended, b.stream, b.mean)
    _normalise(b.stream[:d], b.mean, b.normed, b.per_std)
    _affine(w.w1, w.b1, b.normed, b.hidden)
    _relu(b.hidden)
    _affine(w.w2, w.b2, b.hidden, b.d_stream)  # d_stream is free until the backward
    _add(b.d_stream, b.stream)
    _affine(w.embedding, b.no_class, b.stream, b.logits)


# ---- Loss.


@compiled
def _argmax(logits, largest, arg):
    """The largest logit and the first class that has it."""
    for p in range(BLOCK):
        largest[p] = logits[0, p]
        arg[p] = 0
    for k in range(0, len(logits), COLUMNS):
        for p in range(BLOCK):
            m, a = largest[p], arg[p]
            for j in range(COLUMNS):
                a = np.int32(k + j) if logits[k + j, p] > m else a
                m = logits[k + j, p] if logits[k + j, p] > m else m
            largest[p], arg[p] = m, a


@compiled
def _margin(logits, largest, label, margin):
    """max l - l_label."""
    for p in range(BLOCK):
        margin[p] = largest[p] - logits[label[p], p]


@compiled
def _exponentials(logits, largest, total):
    """The logits become exp(l - max l), `total` their sum over the classes."""
    for p in range(BLOCK):
        total[p] = 0
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] = _exp(logits[k, p] - largest[p])
            total[p] += logits[k, p]


@compiled
def _sum_tokens(n, total, margin, arg, label):
    """Sums of n (log sum_k exp l_k - l_label), of n [argmax l = label] and of n."""
    loss, correct, tokens = 0.0, 0, 0
    for p in range(BLOCK):
        loss += n[p] * (_log(total[p]) + margin[p])
        correct += np.int32(n[p]) if arg[p] == label[p] else 0
        tokens += np.int32(n[p])
    return loss, correct, tokens


@compiled
def _softmax_gradient(n, label, total, logits):
    """The exponentials become n (softmax l - one_hot label), the gradient of the first of `_sum_tokens`."""
    for p in range(BLOCK):
        total[p] = n[p] / total[p]
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] *= total[p]
    for p in range(BLOCK):
        logits[label[p], p] -= n[p]


@compiled
def _cross_entropy(b):
    _argmax(b.logits, b.largest, b.arg)
    _margin(b.logits, b.largest, b.label, b.mean)
    _exponentials(b.logits, b.largest, b.total)
    return _sum_tokens(b.tokens, b.total, b.mean, b.arg, b.label)


# ---- Backward, in reverse order.


@compiled
def _relu_gradient(h, d_h):
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            d_h[i, p] = d_h[i, p] if h[i, p] > zero else zero


@compiled
def _normalise_gradient(x, per_std, d_x, mean, along, d_y):
    """dy += (dx - mean dx - x mean(x dx)) / std."""
    per_d = x.dtype.type(1) / x.dtype.type(len(x))
    for p in range(BLOCK):
        mean[p] = 0
        along[p] = 0
    for i in range(len(x)):
        for p in range(BLOCK):
            mean[p] += d_x[i, p] * per_d
            along[p] += d_x[i, p] * x[i, p] * per_d
    for i in range(len(x)):
        for p in range(BLOCK):
            d_y[i, p] += (d_x[i, p] - mean[p] - x[i, p] * along[p]) * per_std[p]


@compiled
def _residual_gradient(attended, d_y, d_attended):
    """dS = dy / D, dD = -dS . S / D."""
    d = len(d_y)
    for p in range(BLOCK):
        d_attended[d, p] = 0
    for i in range(d):
        for p in range(BLOCK):
            d_attended[i, p] = d_y[i, p] * attended[d, p]
            d_attended[d, p] -= d_attended[i, p] * attended[i, p] * attended[d, p]


@compiled
def _backward(c, w, b, g):
    """Adds the gradients of a block of class `c` to `g`."""
    d = w.start.shape[1]
    _softmax_gradient(b.tokens, b.label, b.total, b.logits)

    _add_products(b.logits, b.stream, g.embedding)
    _affine(w.embedding.T, b.zeros, b.logits, b.d_stream)

    _add_products(b.d_stream, b.hidden, g.w2)
    _add_sums(b.d_stream, g.b2)
    _affine(w.w2.T, b.zeros, b.d_stream, b.d_hidden)
    _relu_gradient(b.hidden, b.d_hidden)
    _add_products(b.d_hidden, b.normed, g.w1)
    _add_sums(b.d_hidden, g.b1)
    _affine(w.w1.T, b.zeros, b.d_hidden, b.d_normed)
    _normalise_gradient(b.normed[:d], b.per_std, b.d_normed, b.mean, b.total, b.d_stream)

    _add_sums(b.d_stream, g.start[c])
    _residual_gradient(b.attended, b.d_stream[:d], b.d_attended)
    _add_products(b.d_attended, b.counts, g.attention[c])


# ---- The whole sweep.


@njit(cache=True, fastmath=FASTMATH, error_model="numpy")
def _sweep(counts, words, label, flat, classes, d, f, block, gradient, backward):
    """Sums of the loss, of correct tokens and of tokens; `gradient`, of the first, is added to if `backward`."""
    loss, correct, tokens = 0.0, 0, 0
    t = _tables(flat, classes, d, f)
    s = _attend(t)
    w = _weights(classes, d, f, block.mean.dtype)
    g = _weights(classes, d, f, np.float64)
    _fold(t, s, w)
    block.stream[d:] = 0  # what overflowed in an earlier call
    pairs = np.zeros(len(counts) + BLOCK, np.uint32)  # unsigned: no test for an index from the end
    for c in range(classes):
        present = 0
        for b in range(len(counts)):
            pairs[present] = b
            present += counts[b, c] > 0
        pairs[present : present + BLOCK] = pairs[0]  # fills the last block
        for first in range(0, present, BLOCK):
            used = min(BLOCK, present - first)
            _load(pairs[first : first + BLOCK], used, c, words, label, block)
            _forward(c, w, block)
            sums = _cross_entropy(block)
            loss, correct, tokens = loss + sums[0], correct + sums[1], tokens + sums[2]
            if backward:
                _backward(c, w, block, g)
    if backward:
        _unfold(g, t, s, _tables(gradient, classes, d, f))
    return loss, correct, tokens
