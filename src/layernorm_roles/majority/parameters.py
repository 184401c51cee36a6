"""The parameters and normed embeddings that the majority transformer's loss depends on: names, shapes and order."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

Array = np.ndarray | Tensor


class LossParameters(NamedTuple):
    """The normed embeddings and the parameters that the loss of the majority transformer depends on.

    Of the norm before attention the loss depends on the two normed embeddings alone. The fields hold torch tensors in
    `model`, numpy arrays in `kernel`, and in gradients the derivatives of the loss. Where they lie one after the other
    in a flat vector, they do so in the order of the fields.
    """

    normed: Float[Array, "classes d_model"]
    """h, the embedding after the norm from which queries and keys are made."""
    normed_values: Float[Array, "classes d_model"]
    """h', the embedding after the norm from which values are made: equal to h unless the variant is split."""
    embedding: Float[Array, "classes d_model"]
    """E, one row a class; the readout is its transpose."""
    in_weight: Float[Array, "3*d_model d_model"]
    """W_Q, W_K and W_V, one below the other."""
    out_weight: Float[Array, "d_model d_model"]
    """W_o, which takes the attended values to the residual stream."""
    out_bias: Float[Array, " d_model"]
    """b_o, which is added to the attended values in the residual stream."""
    norm_gain: Float[Array, " d_model"]
    """Gain of norm2, the LayerNorm before the feed-forward part."""
    norm_bias: Float[Array, " d_model"]
    """Bias of norm2, the LayerNorm before the feed-forward part."""
    w1: Float[Array, "d_ff d_model"]
    """Weight of the feed-forward part's first layer."""
    b1: Float[Array, " d_ff"]
    """Bias of the feed-forward part's first layer."""
    w2: Float[Array, "d_model d_ff"]
    """Weight of the feed-forward part's second layer."""
    b2: Float[Array, " d_model"]
    """Bias of the feed-forward part's second layer."""


class Sizes(NamedTuple):
    """The sizes of a majority transformer, which determine the shapes of its `LossParameters`."""

    classes: int
    """Different tokens."""
    d_model: int
    """Size of the residual stream, of the queries and of the keys."""
    d_ff: int
    """Hidden units of the feed-forward part."""

    @property
    def shapes(self) -> LossParameters:
        """The shape of every field of `LossParameters`."""
        c, d, f = self
        return LossParameters(
            (c, d), (c, d), (c, d), (3 * d, d), (d, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)
        )

    @property
    def entries(self) -> list[int]:
        """The number of entries of every field of `LossParameters`."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def total(self) -> int:
        """The number of entries of all fields of `LossParameters` together: the length of the flat vector."""
        return sum(self.entries)
