"""The paper's GPT-2, of any size, whose norm before attention can be replaced by a variant of LayerNorm.

    x = E[token] + P[position]
    x = x + attention(norm(x));   x = x + feed_forward(ln_2(x))        in each layer
    logits = ln_f(x) E'

`norm` is the variant, from layernorm_roles.norms; ln_2 and ln_f are ordinary LayerNorms in all variants. W_Q, W_K and
W_V have no bias, as in the paper's released code. Some variants make queries and keys from one norm of x, and values
from another. In `layernorm_qk` each head's queries and keys are scaled to length sqrt(d_head) after W_Q and W_K, by an
RMSNorm without gain. (To project them too, as in ViT-22B, would leave heads of two dimensions with two points.) In
`projection_matched` the norm is `norms.MatchedProjection`. In `no_attention` a layer is its feed-forward network alone:
its loss minus another variant's is what attention is worth to that variant.

Source: Brody et al. 2023, section 4, and its gpt2_small_dim_config.json; Radford et al. 2019.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from layernorm_roles import norms, random_streams
from layernorm_roles.heads.layer import Layer
from layernorm_roles.language_model.attention import causal_attention, split
from layernorm_roles.language_model.cross_entropy import linear_cross_entropy
from layernorm_roles.language_model.layers import feed_forward, recorded_layer
from layernorm_roles.settings.language_model import GPTSettings
from layernorm_roles.variants import MATCHED_VARIANT, NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT


class CausalSelfAttention(nn.Module):
    """Causal multi-head self-attention; `query_key_norm` maps each head's queries and keys after W_Q and W_K."""

    def __init__(self, d_model: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model)
        self.query_key_norm: nn.Module = nn.Identity()

    def packed(
        self, x: Float[Tensor, "batch n d"], x_values: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n three_d"]:
        """Queries, keys and values in one tensor; queries and keys come from x, values from x_values.

        Along the last axis are the queries of all heads, one head after another, then all keys, then all values.
        """
        if x_values is x:
            qkv = self.qkv(x)
        else:
            of_queries_and_keys, of_values = self.qkv.weight.split([2 * x.shape[-1], x.shape[-1]])
            qkv = torch.cat([F.linear(x, of_queries_and_keys), F.linear(x_values, of_values)], dim=-1)
        if isinstance(self.query_key_norm, nn.Identity):
            return qkv
        q_and_k, v = qkv.split([2 * x.shape[-1], x.shape[-1]], dim=-1)
        normed = self.query_key_norm(q_and_k.unflatten(-1, (2 * self.heads, -1))).flatten(-2)
        return torch.cat([normed, v], dim=-1)

    def attended(
        self, x: Float[Tensor, "batch n d"], x_values: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        """The concatenated outputs of the heads, before W_O."""
        return causal_attention(self.packed(x, x_values), self.heads, self.dropout if self.training else 0.0)

    def forward(
        self, x: Float[Tensor, "batch n d"], x_values: Float[Tensor, "batch n d"]
    ) -> Float[Tensor, "batch n d"]:
        return self.out(self.attended(x, x_values))


class GPTLayer(nn.Module):
    """A pre-norm layer of GPT-2: attention after a norm, then a feed-forward network after the LayerNorm `ln_2`.

    Queries and keys are made from the output of `norm`, values from that of `values_norm` or, if it is None, of `norm`.
    In training, a layer without attention still draws the random numbers of attention's dropout, so that the dropout
    elsewhere is as in a model with attention.
    """

    def __init__(self, settings: GPTSettings):
        super().__init__()
        d_model, self.heads = settings.d_model, settings.heads
        self.attention_dropout = settings.attention_dropout
        self.norm: nn.Module | None = nn.Identity()
        self.values_norm: nn.Module | None = None
        self.attention: CausalSelfAttention | None = CausalSelfAttention(
            d_model, settings.heads, settings.attention_dropout
        )
        self.ln_2 = nn.LayerNorm(d_model, eps=settings.eps)
        self.feed_forward = feed_forward(d_model, settings.hidden, "tanh")
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        if self.attention is not None:
            x = x + self.dropout(self.attention(*self.normed(x)))
        elif self.training:
            with torch.no_grad():
                if self.attention_dropout:
                    causal_attention(torch.cat([x, x, x], dim=-1), self.heads, self.attention_dropout)
                self.dropout(x)
        return x + self.dropout(self.feed_forward(self.ln_2(x)))

    def normed(
        self, x: Float[Tensor, "batch n d"]
    ) -> tuple[Float[Tensor, "batch n d"], Float[Tensor, "batch n d"]]:
        """x after the norm for queries and keys, and x after the norm for values: one tensor if there is one norm."""
        y = self.norm(x)
        return y, y if self.values_norm is None else self.values_norm(x)

    def leave_out_attention(self) -> None:
        self.attention = self.norm = self.values_norm = None


class GPT(nn.Module):
    """A GPT-2 for a vocabulary of `vocabulary` tokens; `norm` names the norm before attention.

    `norm` is a name that `norms.build_pair` takes, such as "projection". If `query_key_eps` is given, each head's
    queries and keys are also scaled to length sqrt(d_head), by an RMSNorm with `query_key_eps` as its eps.
    """

    def __init__(self, settings: GPTSettings, vocabulary: int, norm: str, query_key_eps: float | None = None):
        super().__init__()
        d_model = settings.d_model
        self.tokens = nn.Embedding(vocabulary, d_model)
        self.positions = nn.Embedding(settings.context_length, d_model)
        self.dropout = nn.Dropout(settings.dropout)
        self.layers = nn.ModuleList(GPTLayer(settings) for _ in range(settings.layers))
        self.ln_f = nn.LayerNorm(d_model, eps=settings.eps)
        self.apply(initialise)
        for layer in self.layers:
            # GPT-2: what adds to the residual stream starts smaller, by the number of additions.
            for adding in (layer.attention.out, layer.feed_forward[2]):
                nn.init.normal_(adding.weight, std=0.02 / math.sqrt(2 * len(self.layers)))
        # The norms come last: a norm that draws parameters then changes no other draw.
        for layer in self.layers:
            layer.norm, of_values = norms.build_pair(norm, d_model, settings.eps)
            if of_values is not layer.norm:
                layer.values_norm = of_values
            if query_key_eps is not None:
                layer.attention.query_key_norm = norms.build(
                    "scale", d_model // settings.heads, query_key_eps
                )

    def forward(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        """The hidden states after the last LayerNorm; logits are their inner products with the token embeddings."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.ln_f(x)

    def embed(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.dropout(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])

    def loss(self, window: Integer[Tensor, "batch length"]) -> Float[Tensor, ""]:
        """Mean cross-entropy, in nats, of predicting each token of a window but the first from those before it."""
        hidden, targets = self(window[:, :-1]), window[:, 1:]
        return linear_cross_entropy(hidden.flatten(0, 1), self.tokens.weight, targets.flatten())

    @torch.no_grad()
    def record(self, tokens: Sequence[int]) -> list[Layer]:
        """The queries, keys and attention inputs of each layer with attention, on one text; call `eval()` before."""
        x, layers = self.embed(torch.tensor([list(tokens)])), []
        for number, layer in enumerate(self.layers, start=1):
            if layer.attention is not None:
                y, y_values = layer.normed(x)
                queries, keys, _ = split(layer.attention.packed(y, y_values), layer.heads)
                of_heads, qkv = layer.attention.query_key_norm, layer.attention.qkv
                layers.append(
                    recorded_layer(number, x, y, queries, keys, layer.norm, of_heads, qkv, causal=True)
                )
            x = layer(x)
        return layers


def initialise(module: nn.Module) -> None:
    """GPT-2's and BERT's initialisation: normal weights of deviation 0.02, zero biases."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def without_attention(network: nn.Module) -> nn.Module:
    """Remove attention, with its norms, from every layer of a GPT or a BERT, and return the network."""
    for layer in network.layers:
        layer.leave_out_attention()
    return network


def build(
    settings: GPTSettings, variant: str, norm: str, vocabulary: int, seed: int, classes: None = None
) -> GPT:
    """A GPT-2 with initial parameters drawn from `seed`, for one variant of the norm before attention.

    Parameters that two variants have in common are equal for equal seeds. `variant` is the variant's name in
    config.yaml, and `norm` its name for `norms.build_pair`. `norm` is ignored for the variants that only language
    models have, such as "no_attention". `classes` is ignored.
    """
    random_streams.seed_torch(seed)
    if variant == QUERY_KEY_VARIANT:
        return GPT(settings, vocabulary, "layernorm", settings.query_key_eps)
    if variant == NO_ATTENTION_VARIANT:
        return without_attention(GPT(settings, vocabulary, "none"))
    if variant == MATCHED_VARIANT:
        network = GPT(settings, vocabulary, "projection")
        for layer in network.layers:
            layer.norm = norms.MatchedProjection()
        return network
    return GPT(settings, vocabulary, norm)
