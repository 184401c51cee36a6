"""Names, shapes and order of what the loss of the majority task's transformer depends on."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

Array = np.ndarray | Tensor


class LossParameters(NamedTuple):
    """What the loss of the majority task's transformer depends on: its parameters, and the embeddings after a norm.

    The norm before attention enters the loss by `normed` and `normed_values` alone, so its parameters are no fields
    here. The fields hold torch tensors in `model`, numpy arrays in `kernel`, and in a gradient the derivatives of the
    loss with respect to each field. In a flat vector the arrays lie one after the other in the order of the fields.
    """

    normed: Float[Array, "classes d_model"]
    """h, the embeddings after the norm before attention that makes queries and keys."""
    normed_values: Float[Array, "classes d_model"]
    """h', the embeddings after the norm before attention that makes values; h unless values have another norm."""
    embedding: Float[Array, "classes d_model"]
    """E, the embedding, with a row for each class; the transposed embedding maps the residual stream to logits."""
    in_weight: Float[Array, "3*d_model d_model"]
    """W_Q, W_K and W_V, the matrices that make queries, keys and values, stacked in this order."""
    out_weight: Float[Array, "d_model d_model"]
    """W_o, the matrix that maps the attended values to the residual stream."""
    out_bias: Float[Array, " d_model"]
    """b_o, which is added to the attended values in the residual stream."""
    norm_gain: Float[Array, " d_model"]
    """Gain of norm2, the LayerNorm before the feed-forward part."""
    norm_bias: Float[Array, " d_model"]
    """Bias of norm2, the LayerNorm before the feed-forward part."""
    w1: Float[Array, "d_ff d_model"]
    """Weight of the feed-forward part's first layer, from the residual stream to hidden units."""
    b1: Float[Array, " d_ff"]
    """Bias of the feed-forward part's hidden units."""
    w2: Float[Array, "d_model d_ff"]
    """Weight of the feed-forward part's second layer, from hidden units to the residual stream."""
    b2: Float[Array, " d_model"]
    """Bias of the feed-forward part's second layer, which is added to the residual stream."""


class Sizes(NamedTuple):
    """The sizes of a majority transformer, which determine the shapes of its `LossParameters`."""

    classes: int
    """Number of classes of the majority task, which are its different tokens."""
    d_model: int
    """Size of the residual stream, of the queries and of the keys."""
    d_ff: int
    """Number of hidden units of the model's feed-forward part."""

    @property
    def shapes(self) -> LossParameters:
        """A `LossParameters` whose fields hold the shapes of the arrays instead of the arrays."""
        c, d, f = self
        return LossParameters(
            (c, d), (c, d), (c, d), (3 * d, d), (d, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)
        )

    @property
    def entries(self) -> list[int]:
        """The number of entries of each array in `LossParameters`, in the order of its fields."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def total(self) -> int:
        """The number of entries of all arrays in `LossParameters`: the length of the flat vector that holds them."""
        return sum(self.entries)
