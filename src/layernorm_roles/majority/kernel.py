"""The majority model's loss and gradients on one CPU core, backward written by hand and compiled by numba.

Equal tokens share one representation (there are no positions), so a sequence is its vector n_b of class counts and
the work is over pairs (sequence b, class c present in it). With U'_j = (u_j, 1), the value extended by a one:

    (S, D) = sum_j n_bj A_cj U'_j                       attention: weighted values S, weights D
    y = E_c + b_o + S / D                               residual stream
    x = (y - mean y) / std y,  z = g x + b              LayerNorm, eps 0
    r = y + W_2 relu(W_1 z + b_1) + b_2                 feed-forward
    l = E r                                             logits, tied readout
    loss = sum_bc n_bc (log sum_k exp l_k - l_label) / tokens

A = exp(q_c . k_j / sqrt(d) - max_j) and U come from outside, so nothing here knows which norm made the queries and
keys. Gradients are with respect to each table; the embedding's covers the residual stream and the readout.

How it is fast: pairs of one class are taken in blocks of `BLOCK`, an array holds one feature a row and one pair a
column, and every inner loop runs along a row, so that LLVM vectorises it. How it is exact: sums over pairs are in
the tables' dtype within a block and in float64 across blocks. One thread: the result depends on nothing else, and
several runs are several processes. The first call ever compiles (about 15 s); numba keeps the result on disk.
"""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8
from numba import njit, types
from numba.core import event
from numba.extending import overload

from layernorm_roles.majority.model import Tables

BLOCK = 256
"""Pairs in a block: a block's arrays stay in the second-level cache, its rows in the first."""

ROWS, COLUMNS = 2, 4
"""A product's tile: its eight products share six loads, and its weights stay in registers."""

# Sums may be reordered, products fused and divisions made reciprocals; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

# What is called from compiled code is inlined: a process that compiles would else run another copy of it, with other
# roundings, than one that loads `_all_pairs` from numba's cache.
compiled = njit(fastmath=FASTMATH, error_model="numpy", forceinline=True)


def loss_and_gradients(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int, Tables]:
    """Mean cross-entropy in nats per token, number of tokens predicted correctly, and d loss / d table.

    `tables` are arrays in the order of `model.Tables`, all float32 or all float64; the gradients have their dtype.
    Raises ValueError if a shape or dtype does not fit.
    """
    counts, label, tables = _checked(counts, label, tables)
    weights = _fold(tables)
    loss, correct, folded = _call(counts, label, weights, True)
    return loss, correct, _unfold(folded, tables)


def loss_only(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int]:
    """Loss and correct tokens of `loss_and_gradients`, the same to the bit, without its backward."""
    counts, label, tables = _checked(counts, label, tables)
    loss, correct, _ = _call(counts, label, _fold(tables), False)
    return loss, correct


def _checked(counts, label, tables) -> tuple[np.ndarray, np.ndarray, Tables]:
    """The arguments as contiguous, writable arrays, the layout that is compiled for."""
    tables = Tables(*(np.asarray(table) for table in tables))
    (classes, d), f = tables.embedding.shape, len(tables.b1)
    shapes = [(classes, d), (classes, classes), (classes, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)]
    dtype = tables.embedding.dtype
    for name, table, shape in zip(Tables._fields, tables, shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    counts, label = np.require(counts, requirements="CW"), np.require(label, np.int64, "CW")
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or not counts.any():
        raise ValueError(
            f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences, {classes}), not all 0"
        )
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    return counts, label, tables


def _call(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], weights: "Weights", backward: bool
) -> "tuple[float, int, Weights]":
    block = _new_block(weights)
    gradients = Weights(*(np.zeros(weight.shape) for weight in weights))
    words = _pad(counts, 1, COLUMNS).view(np.int32)  # a row's counts, four to a word
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct, tokens = _all_pairs(counts, words, label, weights, block, gradients, backward)
    return loss / tokens, correct, Weights(*(gradient / tokens for gradient in gradients))


class _CompilationNotice(event.Listener):
    """One line on stderr when numba compiles because nothing is cached, so that a silent wait has a reason."""

    shown = False

    def on_start(self, event):
        if not _CompilationNotice.shown:
            print("compiling the majority kernel, once (about 15 s)", file=sys.stderr, flush=True)
            _CompilationNotice.shown = True

    def on_end(self, event):
        pass


# ---- The small algebra around the pairs: O(C^2 d), in numpy and float64.


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


@np.errstate(over="ignore", invalid="ignore")  # what overflows shows as NaN in the loss
def _fold(tables: Tables) -> Weights:
    t = Tables(*(table.astype(np.float64) for table in tables))
    extended = np.column_stack([t.values, np.ones(len(t.values))])
    weights = Weights(
        attention=_pad(t.attention[:, None, :] * extended.T, 1, ROWS, COLUMNS),
        start=t.embedding + t.out_bias,
        w1=_pad(t.w1 * t.norm_gain, COLUMNS, COLUMNS),
        b1=_pad(t.w1 @ t.norm_bias + t.b1, COLUMNS),
        w2=_pad(t.w2, COLUMNS, COLUMNS),
        b2=_pad(t.b2, COLUMNS),
        embedding=_pad(t.embedding, COLUMNS, COLUMNS),
    )
    return Weights(*(weight.astype(tables.embedding.dtype) for weight in weights))


@np.errstate(over="ignore", invalid="ignore")
def _unfold(g: Weights, t: Tables) -> Tables:
    """The chain rule of `_fold`: from gradients `g` with respect to the weights to those of the tables `t`."""
    (classes, d), f = t.values.shape, len(t.b1)
    extended = np.column_stack([t.values, np.ones(classes)])
    g_attention, g_w1, g_b1 = g.attention[:, : d + 1, :classes], g.w1[:f, :d], g.b1[:f]
    gradients = Tables(
        embedding=g.embedding[:classes, :d] + g.start,
        attention=np.einsum("cij,ji->cj", g_attention, extended),
        values=np.einsum("cij,cj->ji", g_attention[:, :d], t.attention),
        out_bias=g.start.sum(axis=0),
        norm_gain=(g_w1 * t.w1).sum(axis=0),
        norm_bias=g_b1 @ t.w1,
        w1=g_w1 * t.norm_gain + np.outer(g_b1, t.norm_bias),
        b1=g_b1,
        w2=g.w2[:d, :f],
        b2=g.b2[:d],
    )
    return Tables(*(gradient.astype(t.embedding.dtype) for gradient in gradients))


def _pad(array: np.ndarray, *multiples: int) -> np.ndarray:
    """`array` with each axis padded with zeros to a multiple."""
    shape = [-(-size // multiple) * multiple for size, multiple in zip(array.shape, multiples, strict=True)]
    padded = np.zeros(shape, array.dtype)
    padded[tuple(slice(size) for size in array.shape)] = array
    return padded


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


def _new_block(w: Weights) -> Block:
    (hidden, d), classes, dtype = w.w1.shape, len(w.embedding), w.w1.dtype
    no_class = np.zeros(classes, dtype)
    no_class[len(w.start) :] = -np.inf

    def rows(*number):
        return np.zeros((*number, BLOCK), dtype)

    return Block(
        counts=rows(classes),
        tokens=rows(),
        label=np.zeros(BLOCK, np.int32),
        attended=rows(w.attention.shape[1]),
        stream=rows(d),
        normed=rows(d),
        per_std=rows(),
        hidden=rows(hidden),
        logits=rows(classes),
        d_stream=rows(d),
        d_hidden=rows(hidden),
        d_normed=rows(d),
        d_attended=rows(w.attention.shape[1]),
        mean=rows(),
        largest=rows(),
        total=rows(),
        arg=np.zeros(BLOCK, np.int32),
        word=np.zeros(BLOCK, np.int32),
        zeros=np.zeros(max(classes, d, hidden, w.attention.shape[1]), dtype),
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
def _all_pairs(counts, words, label, w, block, g, backward):
    sequences, classes = counts.shape
    loss, correct, tokens = 0.0, 0, 0
    pairs = np.zeros(sequences + BLOCK, np.uint32)  # unsigned: no test for an index from the end
    for c in range(classes):
        present = 0
        for b in range(sequences):
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
    return loss, correct, tokens
