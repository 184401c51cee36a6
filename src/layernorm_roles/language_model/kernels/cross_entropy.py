"""The CPU kernel for the cross-entropy of linear logits, with its gradients, that does not store all logits."""

import numpy as np

from layernorm_roles.language_model.kernels import softmax, vectors
from layernorm_roles.language_model.kernels.vectors import LANES, TOGETHER, jit


@jit
def cross_entropy_sweep(h, w, targets, h_grad, w_grad, bound, entries, block, gradients):
    """Return the sum over tokens of the cross-entropy, in nats, of the logits h.w, and write its gradients to arrays.

    The hidden states h and h_grad have shape (d, tokens), the readout weight w and w_grad (d, entries), all padded by
    `softmax.columns`. The gradient for h is written to h_grad, the gradient for w is added to w_grad; if `gradients` is
    false, h_grad is meaningless and w_grad unchanged. targets (tokens,) has the true entry of each token, a number
    below `entries`. bound (softmax.padded(tokens),) has, for each token, a number that no logit exceeds in magnitude.
    `block` is `softmax.unrolled(d)`.
    """
    d, tokens = len(h), len(bound)
    tile, end = softmax.tile_columns(d), (entries + LANES - 1) // LANES * LANES
    e = np.empty((TOGETHER, w.shape[1]), np.float32)
    totals = np.empty((TOGETHER, LANES), np.float32)
    sums = np.empty((d // 2, 2 * TOGETHER, LANES), np.float32)
    start, per_total = np.empty(tokens, np.float32), np.zeros_like(h)
    loss = 0.0
    for i in range(tokens):
        start[i] = -bound[i]
        if bound[i] > softmax.SAFE_SHIFT:
            start[i] = -softmax.largest_score(h, i, w, entries, block)
    for i in range(0, tokens, TOGETHER):
        totals[:] = 0
        sums[:] = 0
        for first in range(0, end, tile):
            stop = min(first + tile, end)
            softmax.exponentials(h, i, w, first, stop, entries, 0, start, e, 0, totals, block)
            if gradients:
                softmax.add_means(e, w, first, stop, 0, sums)
        for t in range(i, min(i + TOGETHER, len(targets))):
            g, target, wanted = t - i, targets[t], np.float64(0)
            total = vectors.row_sum(totals, g)
            for c in range(d):
                wanted += np.float64(h[c, t]) * np.float64(w[c, target])
                h_grad[c, t] = softmax.mean_of(sums, g, c) / total - w[c, target]
                per_total[c, t] = h[c, t] / total
            loss += np.log(np.float64(total)) - start[t] - wanted
        if gradients:
            softmax.add_outer(e, per_total, i, 0, end, 0, w_grad, block)
    for t in range(len(targets) if gradients else 0):
        for c in range(d):
            w_grad[c, targets[t]] -= h[c, t]
    return loss
