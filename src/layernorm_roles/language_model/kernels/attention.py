"""CPU kernels for causal attention with heads of few dimensions: the output, its gradient, and dropout masks."""

import numpy as np
import torch
from jaxtyping import UInt16
from llvmlite import ir
from numba import types
from torch import Tensor

from layernorm_roles.language_model.kernels import softmax, vectors
from layernorm_roles.language_model.kernels.vectors import GROUP, LANES, ONE, TOGETHER, ZERO, inlined, jit

WORDS = 2
"""Vectors of 32-bit words that one call of the random generator gives; a word is used as two 16-bit numbers."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def empty_dropout_mask(heads: int, n: int) -> UInt16[Tensor, "heads n masks"]:
    """An uninitialised mask for attention dropout: a bit for each head, query and key, for n queries and n keys.

    An integer holds the bits of 16 keys. The last axis has n / 16 integers, rounded up to a multiple of 4.
    """
    return torch.empty(heads, n, -(-n // LANES // (2 * WORDS)) * 2 * WORDS, dtype=torch.uint16)


@vectors.instruction(types.none)
def _draw(write, mask, row, column, key, counter, threshold):
    """Draw 2 * WORDS integers of LANES bits into mask[row, column:], each bit set with probability threshold / 2^16.

    The generator is Threefry-2x32 with 20 rounds (Salmon et al. 2011), a function of the two words of `key` and of a
    counter of two words; for lane l these are `counter` with l added to its first word.
    """
    builder = write.builder

    def rotated(x, by):
        left, right = (write.constant(n, vectors.INTS) for n in (by, 32 - by))
        return builder.or_(builder.shl(x, left), builder.lshr(x, right))

    keys = [write.integers(word) for word in key]
    keys.append(builder.xor(builder.xor(*keys), write.constant(0x1BD11BDA, vectors.INTS)))
    x, y = (write.integers(word) for word in counter)
    x = builder.add(x, ir.Constant(vectors.INTS, list(range(LANES))))
    x, y = builder.add(x, keys[0]), builder.add(y, keys[1])
    for group in range(1, 6):
        for by in _ROTATIONS[(group - 1) % 2]:
            x = builder.add(x, y)
            y = builder.xor(rotated(y, by), x)
        x = builder.add(x, keys[group % 3])
        y = builder.add(builder.add(y, keys[(group + 1) % 3]), write.constant(group, vectors.INTS))
    half = write.constant(16, vectors.INTS)
    below = builder.shl(write.integers(threshold), half)
    for n, word in enumerate((x, y, builder.shl(x, half), builder.shl(y, half))):
        bits = builder.bitcast(builder.icmp_unsigned("<", word, below), ir.IntType(LANES))
        builder.store(bits, mask.pointer(row, write.plus(column, n)))


@jit
def draw_dropout_mask(mask, first, key, threshold):
    """Draw at random which attention weights dropout keeps, and write the result to the bits of `mask`.

    Bit l of mask[h, i, m] is for head h, query i and key 16 * m + l. It is 1 if the weight is kept, which has
    probability threshold / 2^16. `key`, two integers, is the seed. If `mask` is for a part of the heads, `first` is the
    number of the first of them; the bits of a head do not depend on how the heads are split. `mask` is made by
    `empty_dropout_mask`; bits of keys after the query are arbitrary.
    """
    heads, n, _ = mask.shape
    for h in range(heads):
        mask_h = mask[h]
        for i in range(n):
            for m in range(0, i // LANES + 1, 2 * WORDS):
                counter = (m // (2 * WORDS) * LANES, (first + h) * n + i)
                _draw(mask_h, i, m, key, counter, threshold)


@inlined
def _drop(e, mask, i, first, stop):
    """Dropout: set the weight e[g, j - first] to 0 if bit j of mask[i + g] is unset, for `first` <= j < `stop`."""
    for j in range(first, stop, LANES):
        kept = vectors.where(vectors.load_tile(e, j - first, GROUP), mask, i, j // LANES)
        vectors.store_tile(kept, e, j - first)


@inlined
def _columns(rows, column, d, n, scale, block):
    """The transpose of rows[:, column : column + d], times `scale`, zero-padded to a multiple of len(block) rows."""
    out = np.zeros(((d + len(block) - 1) // len(block) * len(block), (n // LANES | 1) * LANES), np.float32)
    for i in range(len(rows)):
        for c in range(d):
            out[c, i] = rows[i, column + c] * scale
    return out


@inlined
def _rows(columns, d, scale, out, column):
    """Write the transpose of the first d rows of `columns`, times `scale`, to out[:, column : column + d]."""
    for i in range(len(out)):
        for c in range(d):
            out[i, column + c] = columns[c, i] * scale


@inlined
def _set_shifts(q, k, shift, block):
    """Set shift[i], the softmax's shift of query i: a bound |q_i| max |k| on its scores, or its largest score."""
    longest = ZERO
    for i in range(len(shift)):
        of_q, of_k = ZERO, ZERO
        for c in range(len(q)):
            of_q += q[c, i] * q[c, i]
            of_k += k[c, i] * k[c, i]
        longest = max(longest, of_k)
        shift[i] = np.sqrt(of_q * longest)
        if shift[i] > softmax.SAFE_SHIFT:
            shift[i] = softmax.largest_score(q, i, k, i + 1, block)


@jit
def attention_forward(qkv, mask, scale, heads, out, log_total, block):
    """Compute causal attention: write the outputs to `out`, and each query's log-sum-exp of scores to `log_total`.

    The last axis of qkv (batch, n, 3 d_model) has the queries of all heads, one head after another, then all keys, then
    all values. The last axis of out (batch, n, d_model) has the heads' outputs, one after another. log_total (batch *
    heads, softmax.padded(n)) has a row for each head of each sequence; only rows heads[0] to heads[1] - 1 are computed.
    Dropout sets attention weights to 0 whose bit in `mask` is 0 (see `draw_dropout_mask`), and multiplies the others by
    `scale`. Without dropout `mask` is None and `scale` is 1. `block` is `softmax.unrolled(d_head)`.
    """
    n, d_model = log_total.shape[1], out.shape[2]
    d = d_model * len(qkv) // len(log_total)
    for h in range(heads[0], heads[1]):
        rows, out_rows, column = qkv[h // (d_model // d)], out[h // (d_model // d)], h % (d_model // d) * d
        q = _columns(rows, column, d, n, np.float32(d**-0.5), block)
        k = _columns(rows, d_model + column, d, n, ONE, block)
        v = _columns(rows, 2 * d_model + column, d, n, scale, block)
        means, tile = np.empty_like(v), softmax.tile_columns(len(v))
        e, totals = np.empty((TOGETHER, tile + LANES), np.float32), np.empty((TOGETHER, LANES), np.float32)
        sums, shift = np.empty((len(v) // 2, 2 * TOGETHER, LANES), np.float32), np.empty(n, np.float32)
        _set_shifts(q, k, shift, block)
        start = -shift
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            totals[:] = 0
            sums[:] = 0
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                softmax.exponentials(q, i, k, first, stop, i + 1, 1, start, e, first, totals, block)
                if mask is not None:
                    _drop(e, mask[h], i, first, stop)
                softmax.add_means(e, v, first, stop, first, sums)
            for g in range(TOGETHER):
                total = vectors.row_sum(totals, g)
                log_total[h, i + g] = np.log(total) + shift[i + g]
                for c in range(d):
                    means[c, i + g] = softmax.mean_of(sums, g, c) / total
        _rows(means, d, ONE, out_rows, column)


@jit
def attention_backward(qkv, mask, scale, heads, out, log_total, out_grad, qkv_grad, block):
    """Compute the backward pass of causal attention: write the loss's gradient with respect to qkv to `qkv_grad`.

    `out_grad` is the gradient of the loss with respect to `out`. `out` and `log_total` are what `attention_forward` has
    written, and its docstring explains the other arguments. The heads of all sequences are numbered one after another;
    the gradients of those from heads[0] up to, but not including, heads[1] are written.
    """
    n, d_model = log_total.shape[1], out.shape[2]
    d = d_model * len(qkv) // len(log_total)
    for h in range(heads[0], heads[1]):
        batch, column = h // (d_model // d), h % (d_model // d) * d
        q = _columns(qkv[batch], column, d, n, np.float32(d**-0.5), block)
        k = _columns(qkv[batch], d_model + column, d, n, ONE, block)
        v = _columns(qkv[batch], 2 * d_model + column, d, n, scale, block)
        grad = _columns(out_grad[batch], column, d, n, ONE, block)
        q_grad, k_grad, v_grad = np.empty_like(q), np.zeros_like(q), np.zeros_like(q)
        tile = softmax.tile_columns(len(q))
        p = np.empty((TOGETHER, tile + LANES), np.float32)
        ds, totals = np.empty_like(p), np.zeros((TOGETHER, LANES), np.float32)
        sums = np.empty((len(q) // 2, 2 * TOGETHER, LANES), np.float32)
        start, mean = -log_total[h], np.zeros(n, np.float32)
        nothing = vectors.splats(mean, 0)
        for i in range(qkv.shape[1]):
            for c in range(column, column + d):
                mean[i] += out[batch, i, c] * out_grad[batch, i, c]
        for i in range(0, n, TOGETHER):
            end = (i // LANES + 1) * LANES
            sums[:] = 0
            centre = vectors.splats(mean, i)
            for first in range(0, end, tile):
                stop = min(first + tile, end)
                softmax.exponentials(q, i, k, first, stop, i + 1, 1, start, p, first, totals, block)
                for j in range(first, stop, LANES):
                    products = softmax.scores(nothing, grad, i, v, j, block)
                    if mask is not None:
                        products = vectors.where(products, mask[h], i, j // LANES)
                    of_p = vectors.load_tile(p, j - first, GROUP)
                    vectors.store_tile(vectors.times(vectors.minus(products, centre), of_p), ds, j - first)
                if mask is not None:
                    _drop(p, mask[h], i, first, stop)
                softmax.add_means(ds, k, first, stop, first, sums)
                softmax.add_outer(ds, q, i, first, stop, first, k_grad, block)
                softmax.add_outer(p, grad, i, first, stop, first, v_grad, block)
            for g in range(TOGETHER):
                for c in range(d):
                    q_grad[c, i + g] = softmax.mean_of(sums, g, c)
        _rows(q_grad, d, np.float32(d**-0.5), qkv_grad[batch], column)
        _rows(k_grad, d, ONE, qkv_grad[batch], d_model + column)
        _rows(v_grad, d, scale, qkv_grad[batch], 2 * d_model + column)
