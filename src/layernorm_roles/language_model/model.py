"""The paper's GPT-2: four layers of size 8, and the norm before attention as the one thing that differs.

    x = E[token] + P[position]
    x = x + attention(norm(x));   x = x + feed_forward(ln_2(x))        in each layer
    logits = ln_f(x) E'

`norm` is a variant of layernorm_roles.norms, without gain and bias and, with it, W_Q, W_K, W_V have no bias: so
released. ln_2 and ln_f stay ordinary LayerNorms. In `layernorm_qk` each head's queries and keys are scaled once
more, to norm sqrt(d_head), after W_Q and W_K (RMSNorm without gain, as in OLMo 2 and Qwen 3). ViT-22B's QK-norm
projects too; with two dimensions a head that would leave two points.

Source: Brody et al. 2023, section 4, and its gpt2_small_dim_config.json; Radford et al. 2019.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from layernorm_roles import norms
from layernorm_roles.language_model.attention import causal_attention
from layernorm_roles.language_model.cross_entropy import linear_cross_entropy

QUERY_KEY_VARIANT = "layernorm_qk"


def scaled_sites(variant: str, norm: str) -> tuple[str, ...]:
    """Where keys come out of a scaling: at the attention input, in the heads. A norm of one's own counts as none."""
    if variant == QUERY_KEY_VARIANT:
        return ("after_norm", "head")
    return ("after_norm",) if norm in norms.VARIANTS and norms.VARIANTS[norm].scales else ()


class Keys(NamedTuple):
    """What attention can select from, in one layer."""

    before_norm: Float[Tensor, "batch n d"]
    after_norm: Float[Tensor, "batch n d"]
    heads: Float[Tensor, "batch heads n d_head"]


class Attention(nn.Module):
    """Causal attention. `query_key_norm` acts on each head's queries and keys; the identity unless it is set."""

    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.query_key_norm: nn.Module = nn.Identity()

    def split(self, x: Float[Tensor, "batch n d"]) -> list[Float[Tensor, "batch heads n d_head"]]:
        """Queries, keys and values of every head."""
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        return [self.query_key_norm(q), self.query_key_norm(k), v]

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        q, k, v = self.split(x)
        dropout = self.dropout if self.training else 0.0
        y = causal_attention(q, k, v, dropout)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention after `norm` (the identity unless it is set), then the feed-forward part after ln_2."""

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        dim, dropout = settings["dim"], settings["dropout"]
        self.norm: nn.Module = nn.Identity()
        self.attention = Attention(dim, settings["heads"], settings["attention_dropout"])
        self.ln_2 = nn.LayerNorm(dim, eps=settings["eps"])
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        x = x + self.dropout(self.attention(self.norm(x)))
        return x + self.dropout(self.feed_forward(self.ln_2(x)))


class GPT(nn.Module):
    """`norm` is what norms.build takes; `settings` has layers, dim, heads, context, vocabulary, eps, the dropouts.

    `query_key_eps` None leaves queries and keys as they are; a number scales them, with that eps.
    """

    def __init__(self, settings: Mapping[str, Any], norm: str, query_key_eps: float | None = None):
        super().__init__()
        dim, heads, eps = settings["dim"], settings["heads"], settings["eps"]
        if dim % heads:
            raise ValueError(f"language_model.heads = {heads}: expected a divisor of dim = {dim}")

        self.tokens = nn.Embedding(settings["vocabulary"], dim)
        self.positions = nn.Embedding(settings["context"], dim)
        self.dropout = nn.Dropout(settings["dropout"])
        self.layers = nn.ModuleList(Layer(settings) for _ in range(settings["layers"]))
        self.ln_f = nn.LayerNorm(dim, eps=eps)
        self.apply(initialise)
        for block in self.layers:
            # GPT-2: what adds to the residual stream starts smaller, by its number of additions.
            for linear in (block.attention.out, block.feed_forward[2]):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * len(self.layers)))
        # The norms come last: one with parameters of its own then changes no draw of the others.
        for block in self.layers:
            block.norm = norms.build(norm, dim, eps)
            if query_key_eps is not None:
                block.attention.query_key_norm = norms.build("scale", dim // heads, query_key_eps)

    def forward(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        """The final hidden states; the readout is `tokens.weight`, see `loss` and `logits`."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.ln_f(x)

    def embed(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.dropout(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])

    def logits(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n vocabulary"]:
        return self(tokens) @ self.tokens.weight.T

    def loss(self, window: Integer[Tensor, "batch n+1"]) -> Float[Tensor, ""]:
        """Mean cross-entropy of the next token, in nats."""
        hidden, targets = self(window[:, :-1]), window[:, 1:]
        return linear_cross_entropy(hidden.flatten(0, 1), self.tokens.weight, targets.flatten())

    @torch.no_grad()
    def keys(self, tokens: Integer[Tensor, "batch n"]) -> list[Keys]:
        """The keys of every layer, first layer first; without dropout (call eval())."""
        x, found = self.embed(tokens), []
        for layer in self.layers:
            y = layer.norm(x)
            found.append(Keys(x, y, layer.attention.split(y)[1]))
            x = layer(x)
        return found


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def build(settings: Mapping[str, Any], variant: str, norm: str, vocabulary: int, seed: int) -> GPT:
    """The model of one run, freshly drawn. `variant` names it, `norm` is what norms.build takes for it."""
    torch.manual_seed(seed)
    scaled = variant == QUERY_KEY_VARIANT
    return GPT(
        {**settings, "vocabulary": vocabulary},
        "layernorm" if scaled else norm,
        settings["query_key_eps"] if scaled else None,
    )
