"""Entry points of the majority task's CPU kernel: checks of arguments, and the loop over (sequence, class) pairs."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int, UInt8

from layernorm_roles.compiling import cached_njit, compilation_notice
from layernorm_roles.majority.kernel.algebra import attend, fold, unfold
from layernorm_roles.majority.kernel.arrays import BLOCK, COLUMNS, FASTMATH, block_memory, zero_weights
from layernorm_roles.majority.kernel.block import backward, cross_entropy, forward, load
from layernorm_roles.majority.parameters import LossParameters, shapes

Counts, Labels = UInt8[np.ndarray, "batch classes"], Int[np.ndarray, " batch"]
Parameters = Sequence[Float[np.ndarray, "..."]]


def loss_and_gradients(
    counts: Counts, label: Labels, parameters: Parameters
) -> tuple[float, int, LossParameters]:
    """The mean cross-entropy in nats per token, the number of correctly predicted tokens, and the mean's gradients.

    `counts` has the number of tokens of each class in each sequence, as uint8; `label` has each sequence's majority
    class. `parameters` are the arrays of a `LossParameters` in its order, all float32 or all float64, and the gradients
    have this dtype. Raises ValueError if a shape, a dtype or a label does not fit, or if all counts are 0.
    """
    loss, correct, tokens, sums = _sums(counts, label, parameters, with_gradient=True)
    dtype = np.asarray(parameters[0]).dtype
    return loss / tokens, correct, LossParameters(*((array / tokens).astype(dtype) for array in sums))


def loss_only(counts: Counts, label: Labels, parameters: Parameters) -> tuple[float, int]:
    """The mean cross-entropy in nats per token, and the number of correctly predicted tokens, without gradients."""
    loss, correct, tokens, _ = _sums(counts, label, parameters, with_gradient=False)
    return loss / tokens, correct


def _sums(
    counts: Counts, label: Labels, parameters: Parameters, with_gradient: bool
) -> tuple[float, int, int, LossParameters]:
    """The results of `_sweep`, and the sums of gradients; the last mean nothing without `with_gradient`."""
    given = LossParameters(*map(np.asarray, parameters))
    sizes, dtype = (*given.embedding.shape, len(given.b1)), given.embedding.dtype
    for name, array, shape in zip(LossParameters._fields, given, shapes(*sizes), strict=True):
        if array.shape != shape or array.dtype != dtype or dtype not in (np.float32, np.float64):
            raise ValueError(
                f"parameter {name} is {array.dtype} {array.shape}: expected {shape}, all float32 or all float64"
            )
    classes, plain = sizes[0], "CAW"  # as the compiled kernel needs them: contiguous, aligned, writable
    counts, label = np.require(counts, None, plain), np.require(label, np.int64, plain)
    if counts.dtype != np.uint8 or counts.ndim != 2 or counts.shape[1] != classes or not counts.any():
        raise ValueError(
            f"counts are {counts.dtype} {counts.shape}: expected uint8 (sequences, {classes}), not all 0"
        )
    if label.shape != counts.shape[:1] or label.min() < 0 or label.max() >= classes:
        raise ValueError(f"labels of shape {label.shape}: expected one class below {classes} a sequence")
    lacking = -classes % COLUMNS
    words = (np.pad(counts, [(0, 0), (0, lacking)]) if lacking else counts).view(np.int32)
    exact = LossParameters(*(np.array(array, np.float64, order="C") for array in given))
    sums = LossParameters(*map(np.zeros_like, exact)) if with_gradient else exact  # which nothing is added to
    with compilation_notice("the majority kernel", seconds=20):
        block = block_memory(*sizes, dtype)
        loss, correct, tokens = _sweep(counts, words, label, exact, block, sums, with_gradient)
    return loss, correct, tokens, sums


@cached_njit(fastmath=FASTMATH, error_model="numpy")
def _sweep(counts, words, label, t, block, gradients, with_gradient):
    """The sums over a batch of the loss, of the tokens predicted correctly and of all tokens."""
    loss, correct, tokens = 0.0, 0, 0
    (classes, d_model), d_ff = t.embedding.shape, len(t.b1)
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
        unfold(g, t, s, gradients)
    return loss, correct, tokens
