"""What GPT and BERT share: the feed-forward network, and the conversion of a layer's queries and keys to numpy."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles import norms
from layernorm_roles.heads.layer import Layer, LearnedNorm, Projection


def feed_forward(d_model: int, d_ff: int, approximate: str = "none") -> nn.Sequential:
    """A linear layer to d_ff hidden units, GELU, exact or `approximate` as torch.nn.GELU takes it, and one back."""
    return nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(approximate), nn.Linear(d_ff, d_model))


def recorded_layer(
    layer: int,
    stream: Float[Tensor, "1 n d"],
    attention_input: Float[Tensor, "1 n d"],
    queries: Float[Tensor, "1 heads n d_head"],
    keys: Float[Tensor, "1 heads n d_head"],
    norm: nn.Module,
    query_key_norm: nn.Module | None,
    qkv: nn.Linear,
    causal: bool,
) -> Layer:
    """The queries, keys, inputs and weights of one layer's attention on one text, as a `heads.layer.Layer` in numpy.

    `attention_input` is `norm` of the residual stream `stream`; `queries` and `keys` are those after `query_key_norm`.
    The rows of the weight of `qkv` are W_Q, then W_K, then W_V.
    """
    _, heads, n, d_head = keys.shape
    weights = qkv.weight.detach().unflatten(0, (3, heads, d_head)).numpy()
    biases = np.zeros(weights.shape[:3]) if qkv.bias is None else qkv.bias.detach().view(3, heads, -1).numpy()
    of_heads = learned_norm(query_key_norm)
    to_queries, to_keys = (Projection(weights[i], biases[i], of_heads, None) for i in (0, 1))
    every = np.ones((n, n), bool)
    return Layer(
        layer=layer,
        queries=queries[0].numpy(),
        keys=keys[0].numpy(),
        scaling=d_head**-0.5,
        visible=np.tril(every) if causal else every,
        attention_input=attention_input[0].numpy(),
        before_norm=stream[0].numpy(),
        norm=learned_norm(norm),
        query_projection=to_queries,
        key_projection=to_keys,
    )


def learned_norm(norm: nn.Module | None) -> LearnedNorm | None:
    """The gain, bias and eps of a norm that scales each vector to a fixed length; None of any other."""
    if isinstance(norm, nn.LayerNorm):
        gain, bias = norm.weight, norm.bias
        return LearnedNorm("layernorm", gain.detach().numpy(), bias.detach().numpy(), norm.eps)
    if not isinstance(norm, norms.Norm) or not norm.variant.scales:
        return None
    # The gain that is learnt begins at the variant's factor; one that is not learnt stays there.
    gain = getattr(norm, "weight", torch.tensor(norm.variant.factor)).detach().double().expand(norm.dim)
    bias = getattr(norm, "bias", torch.zeros(norm.dim)).detach().double()
    gain = gain / norm.dim if norm.variant.divides_by_d else gain
    kind = "layernorm" if norm.variant.projects else "rmsnorm"
    return LearnedNorm(kind, gain.numpy(), bias.numpy(), norm.eps)
