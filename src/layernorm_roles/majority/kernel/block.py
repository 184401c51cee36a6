"""The majority task's CPU kernel for one block of pairs (sequence, class): forward pass, loss and backward pass.

Symbols are those of the package's docstring. LLVM vectorises the loops of small functions, and gives up on larger ones.
"""

import math

import numpy as np

from layernorm_roles.elementary import exp, log
from layernorm_roles.majority.kernel.arrays import BLOCK, COLUMNS, inlined
from layernorm_roles.majority.kernel.products import add_products, add_sums, affine

# Forward


@inlined
def load(pairs, used, c, words, label, b):
    """Fill the class counts, weights and labels in `b`, a `PairBlock`, for 256 pairs (sequence, class `c`)."""
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
    """Set `y` to the stream `start` + S / D, and `mean` to its mean; rows of `attended` are S and D, set to 1 / D."""
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
    """Standardise the columns of `y`: set x to (y - mean) / std, and `per_std` to 1 / std."""
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
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            h[i, p] = zero if h[i, p] < zero else h[i, p]


@inlined
def _add(x, out):
    for i in range(len(x)):
        for p in range(BLOCK):
            out[i, p] += x[i, p]


@inlined
def forward(c, w, b):
    """Compute the logits for all pairs (sequence, class `c`) in the `PairBlock` `b`, and write them to b.logits."""
    d = w.start.shape[1]
    affine(w.attention[c], b.zeros, b.counts, b.attended)
    _residual(w.start[c], b.attended, b.stream, b.mean)
    _normalise(b.stream[:d], b.mean, b.normed, b.per_std)
    affine(w.w1, w.b1, b.normed, b.hidden)
    _relu(b.hidden)
    affine(w.w2, w.b2, b.hidden, b.d_stream)  # d_stream is free until the backward
    _add(b.d_stream, b.stream)
    affine(w.embedding, b.no_class, b.stream, b.logits)


# Cross-entropy


@inlined
def _argmax(logits, largest, arg):
    """Set `largest` to the largest logit of each pair (column), and `arg` to the first class that has it."""
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


@inlined
def _margin(logits, largest, label, margin):
    """Set `margin` to the largest logit of each pair (column) minus the logit of its label."""
    for p in range(BLOCK):
        margin[p] = largest[p] - logits[label[p], p]


@inlined
def _exponentials(logits, largest, total):
    """Set each logit of a pair to exp(logit - the pair's largest logit), and `total` to their sum over the classes."""
    for p in range(BLOCK):
        total[p] = 0
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] = exp(logits[k, p] - largest[p])
            total[p] += logits[k, p]


@inlined
def _sum_tokens(n, total, margin, arg, label):
    """Over pairs of n tokens each, the sums of n (log total + margin), the loss, of n where arg = label, and of n."""
    loss, correct, tokens = 0.0, 0, 0
    for p in range(BLOCK):
        loss += n[p] * (log(total[p]) + margin[p])
        correct += np.int32(n[p]) if arg[p] == label[p] else 0
        tokens += np.int32(n[p])
    return loss, correct, tokens


@inlined
def _softmax_gradient(n, label, total, logits):
    """Set the logits, now exp(l - max l), to n (softmax l - one_hot label), the loss's gradient; overwrites `total`."""
    for p in range(BLOCK):
        total[p] = n[p] / total[p]
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] *= total[p]
    for p in range(BLOCK):
        logits[label[p], p] -= n[p]


@inlined
def cross_entropy(b):
    """The summed cross-entropy in nats, the number of correctly predicted tokens and the number of all tokens in `b`.

    `b` is a `PairBlock` of pairs (sequence, class), for which `forward` has computed the logits. The call replaces each
    logit in b.logits by exp(logit - largest logit of the pair).
    """
    _argmax(b.logits, b.largest, b.arg)
    _margin(b.logits, b.largest, b.label, b.mean)
    _exponentials(b.logits, b.largest, b.total)
    return _sum_tokens(b.tokens, b.total, b.mean, b.arg, b.label)


# Backward


@inlined
def _relu_gradient(h, d_h):
    """Set the gradient d_h to 0 where the hidden unit h is 0."""
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            d_h[i, p] = d_h[i, p] if h[i, p] > zero else zero


@inlined
def _normalise_gradient(x, per_std, d_x, mean, along, d_y):
    """Gradient of standardising y to x: add (dx - mean dx - x mean(x dx)) / std to dy; `mean`, `along` are scratch."""
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


@inlined
def _residual_gradient(attended, d_y, d_attended):
    """Gradient of y = S / D: set dS to dy / D, and dD to -dS . S / D; `attended` holds S and, in row d, 1 / D."""
    d = len(d_y)
    for p in range(BLOCK):
        d_attended[d, p] = 0
    for i in range(d):
        for p in range(BLOCK):
            d_attended[i, p] = d_y[i, p] * attended[d, p]
            d_attended[d, p] -= d_attended[i, p] * attended[i, p] * attended[d, p]


@inlined
def backward(c, w, b, g):
    """Add the gradient of the loss, summed over the tokens of all pairs (sequence, class `c`) in `b`, to `g`."""
    d = w.start.shape[1]
    _softmax_gradient(b.tokens, b.label, b.total, b.logits)

    add_products(b.logits, b.stream, g.embedding)
    affine(w.embedding.T, b.zeros, b.logits, b.d_stream)

    add_products(b.d_stream, b.hidden, g.w2)
    add_sums(b.d_stream, g.b2)
    affine(w.w2.T, b.zeros, b.d_stream, b.d_hidden)
    _relu_gradient(b.hidden, b.d_hidden)
    add_products(b.d_hidden, b.normed, g.w1)
    add_sums(b.d_hidden, g.b1)
    affine(w.w1.T, b.zeros, b.d_hidden, b.d_normed)
    _normalise_gradient(b.normed[:d], b.per_std, b.d_normed, b.mean, b.total, b.d_stream)

    add_sums(b.d_stream, g.start[c])
    _residual_gradient(b.attended, b.d_stream[:d], b.d_attended)
    add_products(b.d_attended, b.counts, g.attention[c])
