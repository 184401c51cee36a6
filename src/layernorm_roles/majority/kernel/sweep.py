"""The compiled function of the kernel: loss and gradients over all pairs of a batch, block by block."""

import numpy as np

from layernorm_roles.compiling import cached_njit
from layernorm_roles.majority.kernel.algebra import attend, fold, parameters_in, unfold
from layernorm_roles.majority.kernel.arrays import BLOCK, zero_weights
from layernorm_roles.majority.kernel.block import backward, cross_entropy, forward, load
from layernorm_roles.majority.kernel.jit import FASTMATH


@cached_njit(fastmath=FASTMATH, error_model="numpy")
def sweep(counts, words, label, flat, classes, d_model, d_ff, block, gradient, with_gradient):
    """The sums over a batch of the loss, of the tokens predicted rightly and of all tokens, and the loss's gradient.

    `counts` (batch, classes) are uint8, `words` their bytes, four in an int32, padded with zeros; `label` (batch,) is
    int64; `flat` (entries,) holds the fields of `LossParameters` in float64. If `with_gradient`, the gradient of the
    first sum is added to `gradient` (entries,). The dtype of `block`, a `PairBlock`, is that of the sums within a
    block.
    """
    loss, correct, tokens = 0.0, 0, 0
    t = parameters_in(flat, classes, d_model, d_ff)
    s = attend(t)
    w = zero_weights(classes, d_model, d_ff, block.mean.dtype)
    g = zero_weights(classes, d_model, d_ff, np.float64)
    fold(t, s, w)
    block.stream[d_model:] = 0  # what overflowed in an earlier call
    pairs = np.zeros(len(counts) + BLOCK, np.uint32)  # unsigned: no test for an index from the end
    for c in range(classes):
        present = 0
        for b in range(len(counts)):
            pairs[present] = b
            present += counts[b, c] > 0
        pairs[present : present + BLOCK] = pairs[0]  # fills the last block
        for first in range(0, present, BLOCK):
            used = min(BLOCK, present - first)
            load(pairs[first : first + BLOCK], used, c, words, label, block)
            forward(c, w, block)
            sums = cross_entropy(block)
            loss, correct, tokens = loss + sums[0], correct + sums[1], tokens + sums[2]
            if with_gradient:
                backward(c, w, block, g)
    if with_gradient:
        unfold(g, t, s, parameters_in(gradient, classes, d_model, d_ff))
    return loss, correct, tokens
