"""The cross-entropy of one block of pairs, and its gradient with respect to the logits."""

import numpy as np

from layernorm_roles.majority.kernel.arrays import BLOCK, COLUMNS
from layernorm_roles.majority.kernel.elementary import exp, log
from layernorm_roles.majority.kernel.jit import inlined


@inlined
def _argmax(logits, largest, arg):
    """Set `largest` to the largest logit of a pair, and `arg` to the first class that has it."""
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
    """Set `margin` to max l - l_label."""
    for p in range(BLOCK):
        margin[p] = largest[p] - logits[label[p], p]


@inlined
def _exponentials(logits, largest, total):
    """Set the logits to exp(l - max l), and `total` to the sum of that over the classes."""
    for p in range(BLOCK):
        total[p] = 0
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] = exp(logits[k, p] - largest[p])
            total[p] += logits[k, p]


@inlined
def _sum_tokens(n, total, margin, arg, label):
    """The sums over pairs of n (log sum_k exp l_k - l_label), of n [argmax l = label] and of n."""
    loss, correct, tokens = 0.0, 0, 0
    for p in range(BLOCK):
        loss += n[p] * (log(total[p]) + margin[p])
        correct += np.int32(n[p]) if arg[p] == label[p] else 0
        tokens += np.int32(n[p])
    return loss, correct, tokens


@inlined
def softmax_gradient(n, label, total, logits):
    """Set the logits, which hold exp(l - max l), to n (softmax l - one_hot label): the gradient of the summed loss.

    `total` holds the sum of the exponentials and is overwritten.
    """
    for p in range(BLOCK):
        total[p] = n[p] / total[p]
    for k in range(len(logits)):
        for p in range(BLOCK):
            logits[k, p] *= total[p]
    for p in range(BLOCK):
        logits[label[p], p] -= n[p]


@inlined
def cross_entropy(b):
    """The sums over the block's pairs of loss, correct tokens and tokens; the logits become exponentials."""
    _argmax(b.logits, b.largest, b.arg)
    _margin(b.logits, b.largest, b.label, b.mean)
    _exponentials(b.logits, b.largest, b.total)
    return _sum_tokens(b.tokens, b.total, b.mean, b.arg, b.label)
