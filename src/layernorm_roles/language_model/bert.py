"""The paper's small BERT, without any LayerNorm (Table 4) or, as a control, with all of BERT's LayerNorms.

    x = norm(E[token] + P[position] + T)
    x = norm(x + attention(x));   x = norm(x + feed_forward(x))        in each layer

E, P and T are the token, position and segment embeddings, and `norm` is a LayerNorm with gain and bias or the identity.
The model predicts masked tokens or, as in the paper, classes of sentences.

Source: Brody et al. 2023, appendix, and its bert_small_dim_config.json; Devlin et al. 2019.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from layernorm_roles import random_streams
from layernorm_roles.heads.layer import Layer
from layernorm_roles.language_model.attention import attention, split
from layernorm_roles.language_model.cross_entropy import linear_cross_entropy
from layernorm_roles.language_model.layers import feed_forward, recorded_layer
from layernorm_roles.language_model.model import initialise, without_attention
from layernorm_roles.settings.language_model import BERTSettings
from layernorm_roles.variants import BERT_VARIANTS, NO_ATTENTION_VARIANT

MASK, CLASS, PAD = SPECIAL_TOKENS = range(3)
"""BERT's special tokens; the token id of each is its number here plus the tokenizer's vocabulary size."""
EPS = 1e-12
"""eps of every LayerNorm of a BERT, as in Devlin et al. (2019)."""


class BERTLayer(nn.Module):
    """Attention and a feed-forward network, each followed by a LayerNorm if `normed` is true."""

    def __init__(self, settings: BERTSettings, normed: bool):
        super().__init__()
        d_model, self.heads = settings.d_model, settings.heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.feed_forward = feed_forward(d_model, settings.hidden)
        self.norm_1, self.norm_2 = _norm(d_model, normed), _norm(d_model, normed)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self, x: Float[Tensor, "batch n d"], present: Bool[Tensor, "batch 1 1 n"] | None
    ) -> Float[Tensor, "batch n d"]:
        """The output before `norm_2`, which the caller applies; `present` is False where a token is padding."""
        if self.out is not None:
            y = attention(*split(self.qkv(x), self.heads), attn_mask=present).transpose(1, 2).flatten(2)
            x = self.norm_1(x + self.dropout(self.out(y)))
        elif self.training:
            self.dropout(x)  # drawn all the same, so that the models of a seed drop the same units elsewhere
        return x + self.dropout(self.feed_forward(x))

    def leave_out_attention(self) -> None:
        self.qkv = self.out = self.norm_1 = None


class BERT(nn.Module):
    """A BERT, with or without LayerNorms, that predicts masked tokens or, if `classes` is given, so many classes."""

    def __init__(self, settings: BERTSettings, normed: bool, vocabulary: int, classes: int | None = None):
        super().__init__()
        d_model, entries = settings.d_model, vocabulary + len(SPECIAL_TOKENS)
        self.tokens = nn.Embedding(entries, d_model)
        self.positions = nn.Embedding(settings.context_length, d_model)
        self.segment = nn.Embedding(1, d_model)
        self.norm_0, self.dropout = _norm(d_model, normed), nn.Dropout(settings.dropout)
        self.layers = nn.ModuleList(BERTLayer(settings, normed) for _ in range(settings.layers))
        self.transform = nn.Linear(d_model, d_model)
        self.readout_norm = _norm(d_model, normed)
        self.readout_bias = nn.Parameter(torch.zeros(entries))
        self.classify = None if classes is None else nn.Linear(d_model, classes)
        self.apply(initialise)

    def forward(
        self, tokens: Integer[Tensor, "batch n"], present: Bool[Tensor, "batch n"] | None = None
    ) -> Float[Tensor, "batch n d"]:
        """The hidden states after the last layer; `present` is False where a token is padding, None if no token is."""
        mask = None if present is None else present[:, None, None]
        x = self.dropout(self.norm_0(self.embed(tokens)))
        for layer in self.layers:
            x = layer.norm_2(layer(x, mask))
        return x

    def embed(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.tokens(tokens) + self.positions.weight[: tokens.shape[1]] + self.segment.weight

    def loss(
        self,
        tokens: Integer[Tensor, "batch n"],
        where: Integer[Tensor, "batch *masked"],
        targets: Integer[Tensor, "batch *masked"],
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy in nats of masked tokens or, if the model was built with `classes`, of sentence classes.

        For masked tokens, `where` (batch, masked) has their positions and `targets` (batch, masked) the true ids. For
        sentences, `where` (batch,) has lengths in tokens, without padding, and `targets` (batch,) the classes.
        """
        if self.classify is not None:
            present = torch.arange(tokens.shape[1], device=tokens.device) < where[:, None]
            pooled = torch.tanh(self.transform(self(tokens, present)[:, 0]))
            return F.cross_entropy(self.classify(self.dropout(pooled)), targets)
        hidden = self(tokens).gather(1, where[..., None].expand(-1, -1, self.segment.weight.shape[1]))
        hidden = self.readout_norm(F.gelu(self.transform(hidden))).flatten(0, 1)
        # The readout's bias is one more dimension of the weight, of which every hidden state has 1.
        weight = torch.cat([self.tokens.weight, self.readout_bias[:, None]], dim=1)
        return linear_cross_entropy(F.pad(hidden, (0, 1), value=1.0), weight, targets.flatten())

    @torch.no_grad()
    def record(self, tokens: Sequence[int]) -> list[Layer]:
        """As `GPT.record`, of a text that begins with the class token."""
        layers, before, norm = [], self.embed(torch.tensor([list(tokens)])), self.norm_0
        for number, layer in enumerate(self.layers, start=1):
            x = norm(before)
            if layer.qkv is not None:
                queries, keys, _ = split(layer.qkv(x), layer.heads)
                layers.append(
                    recorded_layer(number, before, x, queries, keys, norm, None, layer.qkv, causal=False)
                )
            before, norm = layer(x, None), layer.norm_2
        return layers


def _norm(d_model: int, normed: bool) -> nn.Module:
    return nn.LayerNorm(d_model, eps=EPS) if normed else nn.Identity()


def build(
    settings: BERTSettings, variant: str, norm: str, vocabulary: int, seed: int, classes: int | None = None
) -> BERT:
    """A BERT model with initial parameters drawn from `seed`; it classifies sentences if `classes` is given.

    Otherwise it predicts masked tokens. `variant` is "layernorm", "none" (without LayerNorms) or "no_attention"; others
    raise ValueError. `norm` is ignored.
    """
    if variant not in BERT_VARIANTS:
        raise ValueError(f"BERT has no variant {variant!r}: expected one of {', '.join(BERT_VARIANTS)}")
    random_streams.seed_torch(seed)
    network = BERT(settings, BERT_VARIANTS[variant], vocabulary, classes)
    return without_attention(network) if variant == NO_ATTENTION_VARIANT else network
