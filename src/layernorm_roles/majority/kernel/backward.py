"""The backward pass of one block of pairs, from the logits to the weights, in reverse order."""

from layernorm_roles.majority.kernel.arrays import BLOCK
from layernorm_roles.majority.kernel.jit import inlined
from layernorm_roles.majority.kernel.loss import softmax_gradient
from layernorm_roles.majority.kernel.products import add_products, add_sums, affine


@inlined
def _relu_gradient(h, d_h):
    """Set the gradient d_h to 0 where the hidden unit h is 0."""
    zero = h.dtype.type(0)
    for i in range(len(h)):
        for p in range(BLOCK):
            d_h[i, p] = d_h[i, p] if h[i, p] > zero else zero


@inlined
def _normalise_gradient(x, per_std, d_x, mean, along, d_y):
    """Add (dx - mean dx - x mean(x dx)) / std to dy; `mean` and `along` are scratch."""
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
    """Set dS to dy / D, and dD to -dS . S / D."""
    d = len(d_y)
    for p in range(BLOCK):
        d_attended[d, p] = 0
    for i in range(d):
        for p in range(BLOCK):
            d_attended[i, p] = d_y[i, p] * attended[d, p]
            d_attended[d, p] -= d_attended[i, p] * attended[i, p] * attended[d, p]


@inlined
def backward(c, w, b, g):
    """Add the gradients of the block `b`, whose pairs are of class `c`, to the `PairWeights` g.

    `w` are the weights of the forward pass, which came before, as did `cross_entropy`.
    """
    d = w.start.shape[1]
    softmax_gradient(b.tokens, b.label, b.total, b.logits)

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
