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

BLOCK = 256
"""Pairs in a block: a block's arrays stay in the second-level cache, its rows in the first."""

# Sums may be reordered, products fused and divisions made reciprocals; NaN and infinity keep their meaning.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

compiled = njit(cache=True, fastmath=FASTMATH, error_model="numpy")


class Gradients(NamedTuple):
    """One array a table, in the order of `majority.model.Tables`. C classes, dimension d, f hidden features."""

    embedding: Float[np.ndarray, "C d"]
    attention: Float[np.ndarray, "C C"]
    values: Float[np.ndarray, "C d"]
    out_bias: Float[np.ndarray, " d"]
    norm_gain: Float[np.ndarray, " d"]
    norm_bias: Float[np.ndarray, " d"]
    w1: Float[np.ndarray, "f d"]
    b1: Float[np.ndarray, " f"]
    w2: Float[np.ndarray, "d f"]
    b2: Float[np.ndarray, " d"]


def loss_and_gradients(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int, Gradients]:
    """Mean cross-entropy in nats per token, number of tokens predicted correctly, and d loss / d table.

    `tables` are arrays in the order of `Gradients`, all float32 or all float64; the gradients have their dtype.
    Raises ValueError if a shape or dtype does not fit.
    """
    tables = _checked(counts, label, tables)
    weights = _fold(tables)
    loss, correct, folded = _call(counts, label, weights, True)
    return loss, correct, _unfold(folded, tables, weights)


def loss_only(
    counts: UInt8[np.ndarray, "B C"], label: Int[np.ndarray, " B"], tables: Sequence[Float[np.ndarray, "..."]]
) -> tuple[float, int]:
    """The loss and the number of correct tokens of `loss_and_gradients`, the same to the bit, without its backward."""
    tables = _checked(counts, label, tables)
    loss, correct, _ = _call(counts, label, _fold(tables), False)
    return loss, correct


def _checked(counts, label, tables) -> Gradients:
    tables = Gradients(*(np.ascontiguousarray(table) for table in tables))
    (classes, d), f = tables.embedding.shape, len(tables.b1)
    shapes = [(classes, d), (classes, classes), (classes, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)]
    dtype = tables.embedding.dtype
    for name, table, shape in zip(Gradients._fields, tables, shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or len(counts) == 0:
        raise ValueError(f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences > 0, {classes})")
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    return tables


def _call(counts, label, weights, backward):
    counts = np.ascontiguousarray(counts)
    sequences, classes = counts.shape
    hidden, d = weights.w1.shape
    dtype = weights.w1.dtype
    padded = np.zeros((sequences, -(-classes // 4) * 4), np.uint8)
    padded[:, :classes] = counts

    def rows(number):
        return np.empty((number, BLOCK), dtype)

    block = Block(
        counts=rows(classes),
        attended=rows(d + 1),
        stream=rows(d),
        normed=rows(d),
        scale=rows(2),
        hidden=rows(hidden),
        logits=rows(classes),
        label=np.empty(BLOCK, np.int64),
        d_stream=rows(d),
        d_hidden=rows(hidden),
        d_normed=rows(d),
        d_attended=rows(d + 1),
    )
    transposed = Weights(*(np.ascontiguousarray(np.swapaxes(weight, 0, -1)) for weight in weights))
    gradients = Weights(*(np.zeros(weight.shape) for weight in weights))
    no_bias = np.zeros(max(classes, d + 1, hidden), dtype)
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct = _all_pairs(
            padded.view(np.uint32), counts, label, weights, transposed, no_bias, block, gradients, backward
        )
    tokens = counts.sum(dtype=np.int64)
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


def _checked(counts, label, tables) -> Gradients:
    tables = Gradients(*(np.ascontiguousarray(table) for table in tables))
    (classes, d), f = tables.embedding.shape, len(tables.b1)
    shapes = [(classes, d), (classes, classes), (classes, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)]
    dtype = tables.embedding.dtype
    for name, table, shape in zip(Gradients._fields, tables, shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or len(counts) == 0:
        raise ValueError(f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences > 0, {classes})")
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    return tables


def _call(counts, label, weights, backward):
    counts = np.ascontiguousarray(counts)
    sequences, classes = counts.shape
    hidden, d = weights.w1.shape
    dtype = weights.w1.dtype
    padded = np.zeros((sequences, -(-classes // 4) * 4), np.uint8)
    padded[:, :classes] = counts

    def rows(number):
        return np.empty((number, BLOCK), dtype)

    block = Block(
        counts=rows(classes),
        attended=rows(d + 1),
        stream=rows(d),
        normed=rows(d),
        scale=rows(2),
        hidden=rows(hidden),
        logits=rows(classes),
        label=np.empty(BLOCK, np.int64),
        d_stream=rows(d),
        d_hidden=rows(hidden),
        d_normed=rows(d),
        d_attended=rows(d + 1),
    )
    transposed = Weights(*(np.ascontiguousarray(np.swapaxes(weight, 0, -1)) for weight in weights))
    gradients = Weights(*(np.zeros(weight.shape) for weight in weights))
    no_bias = np.zeros(max(classes, d + 1, hidden), dtype)
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct = _all_pairs(
            padded.view(np.uint32), counts, label, weights, transposed, no_bias, block, gradients, backward
        )
    tokens = counts.sum(dtype=np.int64)
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


def _checked(counts, label, tables) -> Gradients:
    tables = Gradients(*(np.ascontiguousarray(table) for table in tables))
    (classes, d), f = tables.embedding.shape, len(tables.b1)
    shapes = [(classes, d), (classes, classes), (classes, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)]
    dtype = tables.embedding.dtype
    for name, table, shape in zip(Gradients._fields, tables, shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or len(counts) == 0:
        raise ValueError(f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences > 0, {classes})")
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    return tables


def _call(counts, label, weights, backward):
    counts = np.ascontiguousarray(counts)
    sequences, classes = counts.shape
    hidden, d = weights.w1.shape
    dtype = weights.w1.dtype
    padded = np.zeros((sequences, -(-classes // 4) * 4), np.uint8)
    padded[:, :classes] = counts

    def rows(number):
        return np.empty((number, BLOCK), dtype)

    block = Block(
        counts=rows(classes),
        attended=rows(d + 1),
        stream=rows(d),
        normed=rows(d),
        scale=rows(2),
        hidden=rows(hidden),
        logits=rows(classes),
        label=np.empty(BLOCK, np.int64),
        d_stream=rows(d),
        d_hidden=rows(hidden),
        d_normed=rows(d),
        d_attended=rows(d + 1),
    )
    transposed = Weights(*(np.ascontiguousarray(np.swapaxes(weight, 0, -1)) for weight in weights))
    gradients = Weights(*(np.zeros(weight.shape) for weight in weights))
    no_bias = np.zeros(max(classes, d + 1, hidden), dtype)
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct = _all_pairs(
            padded.view(np.uint32), counts, label, weights, transposed, no_bias, block, gradients, backward
        )
    tokens = counts.sum(dtype=np.int64)
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


def _checked(counts, label, tables) -> Gradients:
    tables = Gradients(*(np.ascontiguousarray(table) for table in tables))
    (classes, d), f = tables.embedding.shape, len(tables.b1)
    shapes = [(classes, d), (classes, classes), (classes, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)]
    dtype = tables.embedding.dtype
    for name, table, shape in zip(Gradients._fields, tables, shapes, strict=True):
        if table.shape != shape or table.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"table {name} is {table.dtype} {table.shape}: expected {shape}, all float32 or all float64"
            )
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or len(counts) == 0:
        raise ValueError(f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences > 0, {classes})")
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    return tables


def _call(counts, label, weights, backward):
    counts = np.ascontiguousarray(counts)
    sequences, classes = counts.shape
    hidden, d = weights.w1.shape
    dtype = weights.w1.dtype
    padded = np.zeros((sequences, -(-classes // 4) * 4), np.uint8)
    padded[:, :classes] = counts

    def rows(number):
        return np.empty((number, BLOCK), dtype)

    block = Block(
        counts=rows(classes),
        attended=rows(d + 1),
        stream=rows(d),
        normed=rows(d),
        scale=rows(2),
        hidden=rows(hidden),
        logits=rows(classes),
        label=np.empty(BLOCK, np.int64),
        d_stream=rows(d),
        d_hidden=rows(hidden),
        d_normed=rows(d),
        d_attended=rows(d + 1),
    )
    transposed = Weights(*(np.ascontiguousarray(np.swapaxes(weight, 0, -1)) for weight in weights))
    gradients = Weights(*(np.zeros(weight.shape) for weight in weights))
    no_bias = np.zeros(max(classes, d + 1, hidden), dtype)
    with event.install_listener("numba:compile", _CompilationNotice()):
        loss, correct = _all_pairs(
            padded.view(np.uint32), counts, label, weights, transposed, no_bias, block, gradients, backward
        )
    tokens = counts.sum(dtype=np.int64)
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
    """What the pairs need of the tables, or the gradient with respect to it."""

    attention: Float[np.ndarray, "C d+1 C"]  # attention[c, :, j] = A_cj U'_j
    start: Float[np.ndarray, "C d"]  # E + b_o
    w1: Float[np.ndarray, "f d"]  # W_1 diag(g): the second norm's gain and bias belong to the layer after it
    b1: Float[np.ndarray, " f"]  # W_1 b + b_1
    w2: Float[np.ndarray, "d f"]
    b2: Float[np.ndarray, " d"]
    embedding: Float[np.ndarray, "C d"]  # the readout


def _fold(tables: Gradients) -> Weights:
    t = Gradients(*(table.astype(np.float64) for table in tables))
    extended = np.column_stack([t.values, np.ones(len(t.values))])
    weights = Weights(
        attention=t.attention[:, None, :] * extended.T,
        start=t.embedding + t.out_bias,
        w1=t.w1 * t.norm_gain,
        b1=t.w1 @ t.norm_bias + t.b1,
        w2=t.w2,
        b2=t.b2,
        embedding=t.embedding,
    )
    return Weights(*(weight.astype(tables.embedding.dtype) for weight in weights))


def _unfold(g: Weights, t: Gradients, weights: Weights) -> Gradients:
    """The chain rule of `_fold`: from gradients `g` with respect to the weights to those of the tables `t`."""
    extended = np.column_stack([t.values, np.ones(len(t.values))])
    gradients = Gradients(
        embedding=g.embedding + g.start,
        attention=np.einsum("cij,ji->cj", g.attention, extended),
        values=np.einsum("cij,cj->ji", g.attention[:, :-1], t.attention),
        out_bias=g.start.sum(axis=0),
        norm_gain=(g.w1 * t.w1).sum(axis=0),
        norm_bias=g.b1 @ t.w1,
        w1=g.w1 * t.norm_gain + np.outer(g.b1, t.norm_bias),
        b1=g.b1,
        w2=g.w2,
        b2=g.b2,
    )
    return Gradients(*(gradient.astype(t.embedding.dtype) for gradient in gradients))


# ---- The pairs.


class Block(NamedTuple):
    """Arrays of one block: a feature a row, a pair a column."""

    counts: Float[np.ndarray, "C pairs"]
    attended: Float[np.ndarray, "d+1 pairs"]  # S and, last, D
    stream: Float[np.ndarray, "d pairs"]  # y, then r
    normed: Float[np.ndarray, "d pairs"]  # x
    scale: Float[np.ndarray, "2 pairs"]  # 1 / std y; scratch
    hidden: Float[np.ndarray, "f pairs"]  # relu(...)
    logits: Float[np.ndarray, "C pairs"]  # l, then exp(l - max), then d loss / d l
    label: Int[np.ndarray, " pairs"]
    d_stream: Float[np.ndarray, "d pairs"]
    d_hidden: Float[np.ndarray, "f pairs"]
    d_normed: Float[np.ndarray, "d pairs"]
    d_attended: Float[np.ndarray, "d+1 pairs"]


@compiled
def _affine(weight, bias, x, out):
    """out = weight @ x + bias, in tiles of two rows of `out` by four of `x`."""
    rows, columns = weight.shape
    for i in range(rows):
        for p in range(BLOCK):
            out[i, p] = bias[i]
    for i in range(0, rows - 1, 2):
        for k in range(0, columns - 3, 4):
            w00, w01, w02, w03 = weight[i, k], weight[i, k + 1], weight[i, k + 2], weight[i, k + 3]
            w10, w11, w12, w13 = weight[i + 1, k], weight[i + 1, k + 1], weight[i + 1, k + 2], weight[i + 1, k + 3]
            for p in range(BLOCK):
                x0, x1, x2, x3 = x[k, p], x[k + 1, p], x[k + 2, p], x[k + 3, p]
                out[i, p] += w00 * x0 + w01 * x1 + w02 * x2 + w03 * x3
                out[i + 1, p] += w10 * x0 + w11 * x1 + w12 * x2 + w13 * x3
    for i in range(rows):
        tiled = columns // 4 * 4 if i < rows // 2 * 2 else 0
        for k in range(tiled, columns):
            for p in range(BLOCK):
                out[i, p] += weight[i, k] * x[k, p]


@compiled
def _add_products(y, x, total):
    """total += y @ x.T, the sum over the block's pairs, in tiles of two rows of `y` by four of `x`."""
    rows, columns = total.shape
    for i in range(0, rows - 1, 2):
        for k in range(0, columns - 3, 4):
            t00 = t01 = t02 = t03 = t10 = t11 = t12 = t13 = x.dtype.type(0)
            for p in range(BLOCK):
                y0, y1 = y[i, p], y[i + 1, p]
                x0, x1, x2, x3 = x[k, p], x[k + 1, p], x[k + 2, p], x[k + 3, p]
                t00 += y0 * x0
                t01 += y0 * x1
                t02 += y0 * x2
                t03 += y0 * x3
                t10 += y1 * x0
                t11 += y1 * x1
                t12 += y1 * x2
                t13 += y1 * x3
            total[i, k] += t00
            total[i, k + 1] += t01
            total[i, k + 2] += t02
            total[i, k + 3] += t03
            total[i + 1, k] += t10
            total[i + 1, k + 1] += t11
            total[i + 1, k + 2] += t12
            total[i + 1, k + 3] += t13
    for i in range(rows):
        tiled = columns // 4 * 4 if i < rows // 2 * 2 else 0
        for k in range(tiled, columns):
            t = x.dtype.type(0)
            for p in range(BLOCK):
                t += y[i, p] * x[k, p]
            total[i, k] += t


@compiled
def _add_sums(y, total):
    """total += the sum over the block's pairs of each row of `y`."""
    for i in range(len(total)):
        t = y.dtype.type(0)
        for p in range(BLOCK):
            t += y[i, p]
        total[i] += t


def _exp(x):
    """exp(x) for x <= 0 within 2 units in the last place; 0 below the smallest normal number; NaN stays NaN."""
    raise NotImplementedError("compiled code only")


@overload(_exp, jit_options={"fastmath": FASTMATH, "error_model": "numpy"})
def _exp_of_dtype(x):
    # exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2: Taylor's series for exp(r), 2^n by its bit pattern.
    # ln 2 is split so that n * high is exact, which keeps r exact.
    if x == types.float32:
        float_, int_, mantissa, bias, lowest, degree = np.float32, np.int32, 23, 127, -87.0, 7
        high, low = float_(0.693359375), float_(-2.12194440054690583e-4)
    else:
        float_, int_, mantissa, bias, lowest, degree = np.float64, np.int64, 52, 1023, -708.0, 13
        high, low = float_(6.93147180369123816490e-1), float_(1.90821492927058770002e-10)
    per_ln2, half, lowest, zero = float_(1 / math.log(2)), float_(0.5), float_(lowest), float_(0)
    taylor = tuple(float_(1 / math.factorial(k)) for k in reversed(range(degree)))
    first = float_(1 / math.factorial(degree))
    mantissa, bias = int_(mantissa), int_(bias)

    def exp(x):
        n = int_((x if x > lowest else lowest) * per_ln2 - half)  # truncation of a number <= 0: rounds to nearest
        m = float_(n)
        r = (x - m * high) - m * low
        y = first
        for coefficient in taylor:
            y = y * r + coefficient
        y *= int_((n + bias) << mantissa).view(float_)
        return zero if x < lowest else y

    return exp


@compiled
def _load(pairs, first, words, label, block):
    """Counts and labels of `pairs[first : first + BLOCK]`; a word holds the counts of four classes."""
    n = block.counts
    classes = len(n)
    for k in range(words.shape[1]):
        here = min(4, classes - 4 * k)
        for p in range(BLOCK):
            word = words[pairs[first + p], k]
            n[4 * k, p] = word & 255
            if here > 1:
                n[4 * k + 1, p] = (word >> 8) & 255
            if here > 2:
                n[4 * k + 2, p] = (word >> 16) & 255
            if here > 3:
                n[4 * k + 3, p] = word >> 24
    for p in range(BLOCK):
        block.label[p] = label[pairs[first + p]]


@compiled
def _forward(c, w, no_bias, block):
    """The logits l of a block of class `c`."""
    attended, y, x, (std, mean), h = block.attended, block.stream, block.normed, block.scale, block.hidden
    d = len(y)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    per_d = one / x.dtype.type(d)

    # y = E_c + b_o + S / D, and its mean
    _affine(w.attention[c], no_bias, block.counts, attended)
    for p in range(BLOCK):
        attended[d, p] = one / attended[d, p]
        mean[p] = zero
    for i in range(d):
        for p in range(BLOCK):
            y[i, p] = w.start[c, i] + attended[i, p] * attended[d, p]
            mean[p] += y[i, p] * per_d

    # x = (y - mean) / std
    for p in range(BLOCK):
        std[p] = zero
    for i in range(d):
        for p in range(BLOCK):
            x[i, p] = y[i, p] - mean[p]
            std[p] += x[i, p] * x[i, p] * per_d
    for p in range(BLOCK):
        std[p] = one / math.sqrt(std[p])
    for i in range(d):
        for p in range(BLOCK):
            x[i, p] *= std[p]

    # r = y + W_2 relu(W_1 x + b_1) + b_2
    _affine(w.w1, w.b1, x, h)
    for i in range(len(h)):
        for p in range(BLOCK):
            h[i, p] = zero if h[i, p] < zero else h[i, p]
    _affine(w.w2, w.b2, h, block.d_stream)
    for i in range(d):
        for p in range(BLOCK):
            y[i, p] += block.d_stream[i, p]

    _affine(w.embedding, no_bias, y, block.logits)


@compiled
def _cross_entropy(c, used, block):
    """Sums of n (log sum_k exp l_k - l_label) and of n [argmax l = label]; leaves n d loss / d l in `logits`."""
    l, label, n = block.logits, block.label, block.counts[c]
    total, best = block.scale[1], block.d_attended[0]
    zero = l.dtype.type(0)
    arg = np.zeros(BLOCK, label.dtype)
    for p in range(BLOCK):
        best[p] = l[0, p]
        total[p] = zero
    for k in range(1, len(l)):
        for p in range(BLOCK):
            arg[p] = k if l[k, p] > best[p] else arg[p]
            best[p] = l[k, p] if l[k, p] > best[p] else best[p]
    loss, correct = 0.0, 0
    for p in range(used):
        loss += n[p] * (best[p] - l[label[p], p])
        correct += int(n[p]) if arg[p] == label[p] else 0
    for k in range(len(l)):
        for p in range(BLOCK):
            l[k, p] = _exp(l[k, p] - best[p])
            total[p] += l[k, p]
    for p in range(used):
        loss += n[p] * math.log(total[p])
    for p in range(BLOCK):
        total[p] = n[p] / total[p]
    for k in range(len(l)):
        for p in range(BLOCK):
            l[k, p] *= total[p]
    for p in range(used):
        l[label[p], p] -= n[p]
    return loss, correct


@compiled
def _backward(c, w, transposed, no_bias, block, g):
    """Adds the block's gradients to `g`."""
    attended, r, x, (per_std, scratch) = block.attended, block.stream, block.normed, block.scale
    h, d_l, d_y, d_h, d_x = block.hidden, block.logits, block.d_stream, block.d_hidden, block.d_normed
    d_attended = block.d_attended
    d = len(r)
    zero = x.dtype.type(0)
    per_d = x.dtype.type(1) / x.dtype.type(d)

    # l = E r
    _add_products(d_l, r, g.embedding)
    _affine(transposed.embedding, no_bias, d_l, d_y)

    # r = y + W_2 h + b_2, h = relu(W_1 x + b_1)
    _add_products(d_y, h, g.w2)
    _add_sums(d_y, g.b2)
    _affine(transposed.w2, no_bias, d_y, d_h)
    for i in range(len(h)):
        for p in range(BLOCK):
            d_h[i, p] = d_h[i, p] if h[i, p] > zero else zero
    _add_products(d_h, x, g.w1)
    _add_sums(d_h, g.b1)
    _affine(transposed.w1, no_bias, d_h, d_x)

    # x = (y - mean y) / std y:  dy += (dx - mean dx - x mean(x dx)) / std
    along = block.hidden[0]
    for p in range(BLOCK):
        scratch[p] = zero
        along[p] = zero
    for i in range(d):
        for p in range(BLOCK):
            scratch[p] += d_x[i, p] * per_d
            along[p] += d_x[i, p] * x[i, p] * per_d
    for i in range(d):
        for p in range(BLOCK):
            d_y[i, p] += (d_x[i, p] - scratch[p] - x[i, p] * along[p]) * per_std[p]

    # y = E_c + b_o + S / D:  dS = dy / D, dD = -dS . S / D
    _add_sums(d_y, g.start[c])
    for p in range(BLOCK):
        d_attended[d, p] = zero
    for i in range(d):
        for p in range(BLOCK):
            d_attended[i, p] = d_y[i, p] * attended[d, p]
            d_attended[d, p] -= d_attended[i, p] * attended[i, p] * attended[d, p]
    _add_products(d_attended, block.counts, g.attention[c])


@compiled
def _all_pairs(words, counts, label, w, transposed, no_bias, block, g, backward):
    sequences, classes = counts.shape
    loss, correct = 0.0, 0
    pairs = np.zeros(sequences + BLOCK, np.int32)
    for c in range(classes):
        present = 0
        for b in range(sequences):
            pairs[present] = b
            present += counts[b, c] > 0
        if present == 0:
            continue
        # The last block is filled up with a pair of this class that has weight zero.
        pairs[present : present + BLOCK] = pairs[0]
        for first in range(0, present, BLOCK):
            used = min(BLOCK, present - first)
            _load(pairs, first, words, label, block)
            _forward(c, w, no_bias, block)
            block.counts[c, used:] *= 0
            block_loss, block_correct = _cross_entropy(c, used, block)
            loss += block_loss
            correct += block_correct
            if backward:
                _backward(c, w, transposed, no_bias, block, g)
    return loss, correct
