"""Names, shapes and order of what the loss of the majority task's transformer depends on."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

Array = np.ndarray | Tensor


class LossParameters(NamedTuple):
    """All that the loss of the majority task's transformer depends on: parameters, and the embeddings after the norm.

    The norm before attention has no parameters here, because the loss depends on them only through its outputs `normed`
    and `normed_values`. Fields hold torch tensors or numpy arrays. A `LossParameters` can also hold the gradient of the
    loss: each field then has the derivatives with respect to this field.
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
    """Gain of norm2, the LayerNorm before the feed-forward part; `norm_bias` is its bias."""
    norm_bias: Float[Array, " d_model"]
    w1: Float[Array, "d_ff d_model"]
    """Weight of the feed-forward part's first layer, whose bias is `b1`; the second layer has `w2` and `b2`."""
    b1: Float[Array, " d_ff"]
    w2: Float[Array, "d_model d_ff"]
    b2: Float[Array, " d_model"]


def shapes(classes: int, d_model: int, d_ff: int) -> LossParameters:
    """The shapes of a model's loss parameters, as a `LossParameters` with a shape in place of each array."""
    c, d, f = classes, d_model, d_ff
    return LossParameters(
        (c, d), (c, d), (c, d), (3 * d, d), (d, d), (d,), (d,), (d,), (f, d), (f,), (d, f), (d,)
    )
