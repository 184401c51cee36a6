"""Arrays of the majority task's CPU kernel: parameters in its layout, and work arrays for (sequence, class) pairs."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numba.extending import register_jitable

from layernorm_roles.compiling import IN_ONE, njit

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""LLVM may reorder sums, fuse products with sums and divide by reciprocals; NaN and infinity keep their meaning."""

inlined = njit(fastmath=FASTMATH, **IN_ONE)
"""Decorator that compiles a function, with `FASTMATH`, into every compiled function that calls it."""

BLOCK = 256
"""Pairs (sequence, class) computed together: their arrays stay in the second-level cache, a row in the first."""

ROWS, COLUMNS = 2, 4
"""Rows of result and argument in a tile of a matrix product: eight products share six loads."""

CACHE_LINE = 64
"""Bytes in a cache line of the processor, at the start of which rows of work arrays begin."""


class PairWeights(NamedTuple):
    """The parameters of a majority transformer, combined and padded for the matrix products of the CPU kernel.

    An instance can also hold the gradients of the loss with respect to these arrays. In the shapes, C, d and f stand
    for the numbers of classes, d_model and d_ff, each padded with zeros to a multiple of 4 (`COLUMNS`); d + 1 is padded
    to a multiple of 2 (`ROWS`). A field says so where an axis is not padded.
    """

    attention: Float[np.ndarray, "C d+1 C"]
    """attention[c, :, j] = A_cj (u_j, 1): the weight of class c for class j times j's value; c is not padded."""
    start: Float[np.ndarray, "C d"]
    """E + b_o, the residual stream of every class before attention's values are added; not padded."""
    w1: Float[np.ndarray, "f d"]
    """W_1 diag(g): the feed-forward part's first weight times the gain g of the norm before it."""
    b1: Float[np.ndarray, " f"]
    """W_1 b + b_1: the bias of the feed-forward part's hidden units, with the bias b of the norm before it."""
    w2: Float[np.ndarray, "d f"]
    b2: Float[np.ndarray, " d"]
    embedding: Float[np.ndarray, "C d"]
    """E, the embedding, whose products with the residual stream are the logits."""


class PairBlock(NamedTuple):
    """Work arrays for 256 (`BLOCK`) pairs of a sequence and a token class, with a column for each pair.

    A pair stands for all tokens of the class in the sequence. Rows are features; their numbers are padded to multiples
    of 2 (`ROWS`) or 4 (`COLUMNS`). Some arrays hold one quantity after another during a pass. `d_stream` holds the
    gradient of the loss with respect to `stream`, and so on for other names that begin with d_.
    """

    counts: Float[np.ndarray, "C pairs"]
    """n_b, the number of tokens of each class in the pair's sequence b."""
    tokens: Float[np.ndarray, " pairs"]
    """n_bc, the number of tokens that a pair stands for, its weight in the loss; 0 if it only fills the block."""
    label: Int[np.ndarray, " pairs"]
    """The majority class of the pair's sequence."""
    attended: Float[np.ndarray, "d+1 pairs"]
    """S, the weighted sum of values, and in row d the sum of weights D, which the forward pass replaces by 1 / D."""
    stream: Float[np.ndarray, "d pairs"]
    """Residual stream of the pairs: y after attention, then r after the feed-forward part."""
    normed: Float[np.ndarray, "d pairs"]
    """x, the residual stream y standardised over its features, before norm2's gain and bias."""
    per_std: Float[np.ndarray, " pairs"]
    """1 / the standard deviation of the residual stream y over its features."""
    hidden: Float[np.ndarray, "f pairs"]
    """Hidden units of the feed-forward part, after the ReLU."""
    logits: Float[np.ndarray, "C pairs"]
    """The logits l, then exp(l - max l), then the gradient of the loss with respect to l."""
    d_stream: Float[np.ndarray, "d pairs"]
    """Gradient of the loss with respect to the residual stream; scratch in the forward pass."""
    d_hidden: Float[np.ndarray, "f pairs"]
    d_normed: Float[np.ndarray, "d pairs"]
    d_attended: Float[np.ndarray, "d+1 pairs"]
    mean: Float[np.ndarray, " pairs"]
    """Scratch for a mean, or for the largest logit minus that of the label."""
    largest: Float[np.ndarray, " pairs"]
    total: Float[np.ndarray, " pairs"]
    arg: Int[np.ndarray, " pairs"]
    word: Int[np.ndarray, " pairs"]
    zeros: Float[np.ndarray, " widest"]
    """Zeros, as long as the longest padded axis of the weights: the bias of a matrix product that has none."""
    no_class: Float[np.ndarray, " C"]
    """The bias of the logits, by class: 0, and -inf for classes that only pad the array."""


@inlined
def zero_weights(classes, d, f, dtype):
    """A `PairWeights` of zeros for `classes` token classes, d_model = `d` and d_ff = `f`, with the given dtype."""
    extended, classes_, d_, f_ = padded(classes, d, f)
    return PairWeights(
        np.zeros((classes, extended, classes_), dtype),
        np.zeros((classes, d), dtype),
        np.zeros((f_, d_), dtype),
        np.zeros(f_, dtype),
        np.zeros((d_, f_), dtype),
        np.zeros(d_, dtype),
        np.zeros((classes_, d_), dtype),
    )


@register_jitable
def padded(classes, d, f):
    """The sizes d + 1, `classes`, `d` and `f`, each rounded up to the multiple that the kernel's arrays need."""
    return d + 1 + -(d + 1) % ROWS, classes + -classes % COLUMNS, d + -d % COLUMNS, f + -f % COLUMNS


@lru_cache
def block_memory(classes: int, d_model: int, d_ff: int, dtype: np.dtype) -> PairBlock:
    """The kernel's work arrays, a `PairBlock`, for a model of the given sizes and dtype.

    The first call with some arguments allocates the arrays. Later calls with equal arguments return the same arrays,
    which all threads share: compiled code must hold Python's global interpreter lock while it uses them.
    """
    present = classes
    extended, classes, d, f = padded(classes, d_model, d_ff)
    no_class = np.zeros(classes, dtype)
    no_class[present:] = -np.inf

    def rows(*number):
        # Vectors are wider than numpy's alignment: across a border of cache lines each read of one would be two.
        size = BLOCK * math.prod(number)
        longer = np.zeros(size + CACHE_LINE, dtype)
        start = -longer.ctypes.data % CACHE_LINE // dtype.itemsize
        return longer[start : start + size].reshape(*number, BLOCK)

    arrays = {name: rows() for name in ("tokens", "per_std", "mean", "largest", "total")}
    arrays |= {name: rows(classes) for name in ("counts", "logits")}
    arrays |= {name: rows(extended) for name in ("attended", "d_attended")}
    arrays |= {name: rows(d) for name in ("stream", "normed", "d_stream", "d_normed")}
    arrays |= {name: rows(f) for name in ("hidden", "d_hidden")}
    arrays |= {name: np.zeros(BLOCK, np.int32) for name in ("label", "arg", "word")}
    zeros = np.zeros(max(classes, d, f, extended), dtype)
    return PairBlock(**arrays, zeros=zeros, no_class=no_class)
