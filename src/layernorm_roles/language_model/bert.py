"""The paper's small BERT with every LayerNorm removed (Table 4), and with them, as the control.

    x = norm(E[token] + P[position] + T)
    x = norm(x + attention(x));   x = norm(x + feed_forward(x))        in each layer

`norm` is an ordinary LayerNorm with gain and bias, or nothing. The attention of a layer takes its keys from what the
norm before it gives out. Trained on masked tokens of the corpus (`Masked`), or as in the paper on the sentiment
of sentences (`Labelled`, SST-2).

Source: Brody et al. 2023, appendix, and its bert_small_dim_config.json; Devlin et al. 2019.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from tokenizers import Tokenizer
from torch import Tensor, nn

from layernorm_roles.language_model.attention import attention
from layernorm_roles.language_model.cross_entropy import linear_cross_entropy
from layernorm_roles.language_model.model import Keys, initialise
from layernorm_roles.language_model.train import BATCHES, Batch
from layernorm_roles.text import contexts

MASK, CLASS, PAD = range(3)
"""BERT's own tokens, counted from the end of the tokenizer's vocabulary."""

MASKED_SHARE = 0.15
VALIDATION = 12
"""Stream of np.random.default_rng([stream]) that masks the validation windows."""


class BertLayer(nn.Module):
    def __init__(self, settings: Mapping[str, Any], normed: bool):
        super().__init__()
        dim, wide = settings["dim"], settings["feed_forward"]
        self.heads = settings["heads"]
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(nn.Linear(dim, wide), nn.GELU(), nn.Linear(wide, dim))
        self.norm_1, self.norm_2 = _norm(dim, normed), _norm(dim, normed)
        self.dropout = nn.Dropout(settings["dropout"])

    def split(self, x: Float[Tensor, "batch n d"]) -> list[Float[Tensor, "batch heads n d_head"]]:
        """Queries, keys and values of every head."""
        return [p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1)]

    def forward(
        self, x: Float[Tensor, "batch n d"], present: Bool[Tensor, "batch 1 1 n"] | None
    ) -> Float[Tensor, "batch n d"]:
        """The layer's output before its last norm."""
        y = attention(*self.split(x), attn_mask=present).transpose(1, 2).flatten(2)
        x = self.norm_1(x + self.dropout(self.out(y)))
        return x + self.dropout(self.feed_forward(x))


class BERT(nn.Module):
    """`normed`: with LayerNorms or none; `classes`: of sentences, or None for masked tokens."""

    def __init__(
        self, settings: Mapping[str, Any], normed: bool, vocabulary: int, classes: int | None = None
    ):
        super().__init__()
        dim = settings["dim"]
        if dim % settings["heads"]:
            raise ValueError(
                f"language_model.bert.heads = {settings['heads']}: expected a divisor of dim = {dim}"
            )
        self.vocabulary = vocabulary
        self.tokens = nn.Embedding(vocabulary + 3, dim)
        self.positions, self.segment = nn.Embedding(settings["context"], dim), nn.Embedding(1, dim)
        self.norm_0, self.dropout = _norm(dim, normed), nn.Dropout(settings["dropout"])
        self.layers = nn.ModuleList(BertLayer(settings, normed) for _ in range(settings["layers"]))
        self.transform = nn.Linear(dim, dim)
        self.readout_norm = _norm(dim, normed)
        self.readout_bias = nn.Parameter(torch.zeros(vocabulary + 3))
        self.classify = None if classes is None else nn.Linear(dim, classes)
        self.apply(initialise)

    def forward(
        self, tokens: Integer[Tensor, "batch n"], present: Bool[Tensor, "batch n"] | None = None
    ) -> Float[Tensor, "batch n d"]:
        present = None if present is None else present[:, None, None]
        x = self.dropout(self.norm_0(self.embed(tokens)))
        for layer in self.layers:
            x = layer.norm_2(layer(x, present))
        return x

    def embed(self, tokens: Integer[Tensor, "batch n"]) -> Float[Tensor, "batch n d"]:
        return self.tokens(tokens) + self.positions.weight[: tokens.shape[1]] + self.segment.weight

    def loss(
        self,
        tokens: Integer[Tensor, "batch n"],
        where: Integer[Tensor, "..."],
        targets: Integer[Tensor, "..."],
    ) -> Float[Tensor, ""]:
        """Mean cross-entropy in nats.

        Masked tokens: `where` (batch, masked) are their positions, `targets` (batch, masked) what was there.
        Sentences: `where` (batch,) are their lengths, `targets` (batch,) their classes.
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
    def keys(self, tokens: Integer[Tensor, "batch n"]) -> list[Keys]:
        """The keys of every layer, first layer first; without dropout (call eval())."""
        found, before, norm = [], self.embed(tokens), self.norm_0
        for layer in self.layers:
            x = norm(before)
            found.append(Keys(before, x, layer.split(x)[1]))
            before, norm = layer(x, None), layer.norm_2
        return found


def _norm(dim: int, normed: bool) -> nn.Module:
    return nn.LayerNorm(dim, eps=1e-12) if normed else nn.Identity()


class Masked:
    """Masked-token prediction on windows of the token streams: 15 % of the tokens, as Devlin et al. 2019 mask them.

    Of these, 80 % become the mask token, 10 % a random one, 10 % stay. A window begins with the class token.
    """

    def __init__(
        self, training: Path, validation: Path, vocabulary: int, settings: Mapping[str, Any], seed: int
    ):
        self.length, self.size, self.seed = settings["context"] - 1, settings["batch"], seed
        self.vocabulary, self.tokens_per_step = vocabulary, settings["batch"] * settings["context"]
        self.training = contexts.stream(training, vocabulary, self.length)
        held_back = contexts.stream(validation, vocabulary, self.length)
        rng = np.random.default_rng([VALIDATION])
        self.held_back = [self._draw(held_back, rng) for _ in range(settings["validation_batches"])]

    def batch(self, step: int) -> Batch:
        return self._draw(self.training, np.random.default_rng([self.seed, BATCHES, step]))

    def validation(self) -> Iterator[Batch]:
        yield from self.held_back

    def _draw(self, stream: np.ndarray, rng: np.random.Generator) -> Batch:
        starts = rng.integers(len(stream) - self.length, size=self.size)
        tokens = np.stack([stream[s : s + self.length] for s in starts]).astype(np.int64)
        masked = max(1, round(MASKED_SHARE * self.length))
        where = np.argsort(rng.random(tokens.shape), axis=1)[:, :masked]
        targets = np.take_along_axis(tokens, where, axis=1)
        fate = rng.random(where.shape)
        random = rng.integers(self.vocabulary, size=where.shape)
        shown = np.where(fate < 0.8, self.vocabulary + MASK, np.where(fate < 0.9, random, targets))
        np.put_along_axis(tokens, where, shown, axis=1)
        return with_class_token(tokens, self.vocabulary), where + 1, targets


class Labelled:
    """Sentences and their classes, as in SST-2, padded to the model's context."""

    def __init__(
        self,
        training: Iterable[tuple[str, int]],
        validation: Iterable[tuple[str, int]],
        tokenizer: Tokenizer,
        settings: Mapping[str, Any],
        seed: int,
    ):
        self.size, self.seed, self.context = settings["batch"], seed, settings["context"]
        self.tokens_per_step = self.size * self.context
        self.training = self._encode(training, tokenizer)
        self.held_back = self._encode(validation, tokenizer)
        for part, (tokens, _, labels) in (("training", self.training), ("validation", self.held_back)):
            if len(tokens) < self.size:
                raise ValueError(
                    f"language_model.bert.{part}: {len(tokens)} sentences; expected at least batch = {self.size}"
                )
            if labels.min() < 0:
                raise ValueError(
                    f"language_model.bert.{part}: a sentence without a label (SST-2's test split has none)"
                )

    @property
    def classes(self) -> int:
        return int(self.training[2].max()) + 1

    def batch(self, step: int) -> Batch:
        number = len(self.training[0])
        epoch, position = divmod(step, number // self.size)
        order = np.random.default_rng([self.seed, BATCHES, epoch]).permutation(number)
        rows = order[position * self.size :][: self.size]
        return tuple(part[rows] for part in self.training)

    def validation(self) -> Iterator[Batch]:
        for start in range(0, len(self.held_back[0]), self.size):
            yield tuple(part[start : start + self.size] for part in self.held_back)

    def _encode(self, rows: Iterable[tuple[str, int]], tokenizer: Tokenizer) -> Batch:
        vocabulary = tokenizer.get_vocab_size()
        texts, labels = zip(*rows, strict=True)
        ids = [encoding.ids[: self.context - 1] for encoding in tokenizer.encode_batch(list(texts))]
        tokens = np.full((len(ids), self.context - 1), vocabulary + PAD, dtype=np.int64)
        for row, sentence in zip(tokens, ids, strict=True):
            row[: len(sentence)] = sentence
        lengths = np.array([len(sentence) + 1 for sentence in ids])
        return with_class_token(tokens, vocabulary), lengths, np.array(labels)


def with_class_token(
    tokens: Integer[np.ndarray, "batch n"], vocabulary: int
) -> Integer[np.ndarray, "batch n+1"]:
    """The class token first, as BERT reads every text."""
    return np.pad(tokens, ((0, 0), (1, 0)), constant_values=vocabulary + CLASS)
