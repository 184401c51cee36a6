"""The forward pass of one block of pairs, up to the logits.

Small functions with few arrays: LLVM vectorises their loops and gives up on larger ones.
"""

import math

import numpy as np

from layernorm_roles.majority.kernel.arrays import BLOCK
from layernorm_roles.majority.kernel.jit import inlined
from layernorm_roles.majority.kernel.products import affine


@inlined
def load(pairs, used, c, words, label, b):
    """Load the counts, weights and labels of pairs of class `c` into the block `b`.

    `pairs` are the sequences of `BLOCK` pairs; those after the first `used` only fill the block, with weight 0.
    `words` are the counts of all sequences, four bytes in an integer, and `label` their majority classes.
    """
    for p in range(BLOCK):
        b.label[p] = label[pairs[p]]
    for k in range(words.shape[1]):
        for p in range(BLOCK):
            b.word[p] = words[pairs[p], k]
        for j in range(4):
            _unpack(b.word, np.int32(8 * j), b.counts[4 * k + j])
    b.tokens[:used] = b.counts[c, :used]
    b.tokens[used:] = 0


@inlined
def _unpack(word, shift, byte):
    """Set `byte` to the byte of `word` that begins at bit `shift`."""
    for p in range(BLOCK):
        byte[p] = (word[p] >> shift) & np.int32(255)


@inlined
def _residual(start, attended, y, mean):
    """Set y to E_c + b_o + S / D, D to 1 / D, and `mean` to the mean of y over its features."""
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


@inlined
def _normalise(y, mean, x, per_std):
    """Set x to (y - mean) / std, and `per_std` to 1 / std."""
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


@inlined
def _relu(h):
    """Set h to max(h, 0); NaN stays NaN."""
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            h[i, p] = zero if h[i, p] < zero else h[i, p]


@inlined
def _add(x, out):
    """Add x to `out`."""
    for i in range(len(x)):
        for p in range(BLOCK):
            out[i, p] += x[i, p]


@inlined
def forward(c, w, b):
    """Compute the logits l of the block `b`, whose pairs are of class `c`, with the `PairWeights` w."""
    d = w.start.shape[1]
    affine(w.attention[c], b.zeros, b.counts, b.attended)
    _residual(w.start[c], b.attended, b.stream, b.mean)
    _normalise(b.stream[:d], b.mean, b.normed, b.per_std)
    affine(w.w1, w.b1, b.normed, b.hidden)
    _relu(b.hidden)
    affine(w.w2, w.b2, b.hidden, b.d_stream)  # d_stream is free until the backward
    _add(b.d_stream, b.stream)
    affine(w.embedding, b.no_class, b.stream, b.logits)
