"""Linear layers, feed-forward parts, and their gradients: products of matrices that have a token a row."""

import numpy as np

from layernorm_roles.language_model.kernels.vectors import (
    LANES,
    NARROW,
    ROW,
    TILE,
    TOGETHER,
    ZERO,
    absolute,
    add_rank_one,
    exp,
    if_positive,
    inlined,
    jit,
    load,
    load_tile,
    splat,
    store,
    store_tile,
)

TOKENS = 64
"""Tokens whose hidden units of a feed-forward part are computed together, so that they stay in the cache."""


@inlined
def _add_tiles(a, b, out, first, stop, j, like):
    """Add a b to the rows of `out` from `first` to `stop`, in the columns from j on that `like` is wide."""
    for i in range(first, stop, len(like)):
        tile = load_tile(out, i, j, like)
        for k in range(a.shape[1]):
            tile = add_rank_one(tile, a, i, k, b, j, like)
        store_tile(tile, out, i, j, like)


@inlined
def _add_product(a, b, out):
    """Add the matrix product a b to `out`; its rows and those of b are whole vectors."""
    rows, columns = out.shape
    whole, wide = rows // TOGETHER * TOGETHER, columns // (2 * LANES) * (2 * LANES)
    for j in range(0, wide, 2 * LANES):
        _add_tiles(a, b, out, 0, whole, j, TILE)
    if wide < columns:
        _add_tiles(a, b, out, 0, whole, wide, NARROW)
    for j in range(0, columns, LANES):
        _add_tiles(a, b, out, whole, rows, j, ROW)


_SQUARE, _CUBE = np.float32(2 * (2 / np.pi) ** 0.5), np.float32(2 * (2 / np.pi) ** 0.5 * 0.044715)
_ROOT, _DENSITY = np.float32(0.5**0.5), np.float32((2 * np.pi) ** -0.5)
_TAIL = tuple(np.float32(x / 2) for x in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))
_NEAR = np.float32(0.3275911)


@inlined
def _gelu(x, exact):
    """GELU of a vector, x Phi(x), and its derivative; unless `exact`, by GPT-2's form of Phi, a hyperbolic tangent.

    The exact Phi comes from the error function by formula 7.1.26 of Abramowitz and Stegun, true to 1.5e-7.
    """
    one = splat(np.float32(1))
    if exact:
        density = exp(splat(np.float32(-0.5)) * x * x)
        t = one / (one + splat(_NEAR * _ROOT) * absolute(x))
        tail = splat(_TAIL[0])
        for c in range(1, 5):
            tail = tail * t + splat(_TAIL[c])
        tail = tail * t * density
        phi = if_positive(x, one - tail, tail)
        return x * phi, phi + splat(_DENSITY) * x * density
    square = x * x
    y = x * (splat(_SQUARE) + splat(_CUBE) * square)
    e = exp(splat(ZERO) - absolute(y))
    larger = one / (one + e)
    smaller = e * larger
    phi = if_positive(y, larger, smaller)
    return x * phi, phi + x * larger * smaller * (splat(_SQUARE) + splat(np.float32(3) * _CUBE) * square)


@jit
def feed_forward_forward(exact, x, hidden, slope, out, w_in, b_in, w_out, b_out):
    """Feed-forward part: writes hidden = GELU(x w_in + b_in), the derivative of GELU, and out = hidden w_out + b_out.

    `exact` is that of `_gelu`. The shapes are x and out (tokens, d), hidden and slope (tokens, d_ff), w_in (d, d_ff),
    b_in (d_ff,), w_out (d_ff, d), b_out (d,). All but x have rows of whole vectors.
    """
    for first in range(0, len(x), TOKENS):
        rows = slice(first, first + TOKENS)
        hidden[rows], out[rows] = b_in, b_out
        _add_product(x[rows], w_in, hidden[rows])
        for i in range(first, min(first + TOKENS, len(x))):
            for j in range(0, hidden.shape[1], LANES):
                y, slope_y = _gelu(load(hidden, i, j), exact)
                store(y, hidden, i, j)
                store(slope_y, slope, i, j)
        _add_product(hidden[rows], w_out, out[rows])


@jit
def feed_forward_backward(
    x, hidden, slope, out_grad, x_grad, w_in, w_out, w_in_grad, b_in_grad, w_out_grad, b_out_grad
):
    """Feed-forward part's gradients: adds to x_grad, w_in_grad, b_in_grad, w_out_grad and b_out_grad.

    The other arguments are what `feed_forward_forward` has taken and written, and the gradient of its output, but w_in
    is (d_ff, d) here, and w_out and the gradient w_out_grad are (d, d_ff). All but x and out_grad have rows of whole
    vectors.
    """
    memory = np.empty((TOKENS, hidden.shape[1]), np.float32)
    for first in range(0, len(x), TOKENS):
        rows = slice(first, min(first + TOKENS, len(x)))
        grad = memory[: rows.stop - first]
        grad[:] = 0
        _add_product(out_grad[rows], w_out, grad)
        for i in range(len(grad)):
            for j in range(0, grad.shape[1], LANES):
                store(load(grad, i, j) * load(slope, first + i, j), grad, i, j)
            b_in_grad += grad[i]
            b_out_grad += out_grad[first + i]
        _add_product(grad, w_in, x_grad[rows])
        _add_product(x[rows].T, grad, w_in_grad)
        _add_product(out_grad[rows].T, hidden[rows], w_out_grad)


@jit
def linear_forward(x, out, weight, bias):
    """Linear layer: writes x weight + bias to `out`; x (tokens, d_in), weight (d_in, d_out). Rows are whole vectors."""
    out[:] = bias
    _add_product(x, weight, out)


@jit
def linear_backward(x, out_grad, x_grad, weight, weight_grad, bias_grad):
    """Linear layer's gradients: adds to x_grad, weight_grad and bias_grad; weight has the shape (d_out, d_in)."""
    for first in range(0, len(x), TOKENS):
        rows = slice(first, min(first + TOKENS, len(x)))
        _add_product(out_grad[rows], weight, x_grad[rows])
        _add_product(out_grad[rows].T, x[rows], weight_grad)
        for i in range(first, rows.stop):
            bias_grad += out_grad[i]
