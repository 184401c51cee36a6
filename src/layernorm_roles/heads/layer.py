"""What one layer's attention computes on one text: queries and keys, and where they come from, in numpy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from layernorm_roles.script import Progress
from layernorm_roles.slices import slices

_SCORES = 2**16  # scores of a long text computed at once: half a MiB, which stays in a core's cache


@dataclass(frozen=True)
class LearnedNorm:
    """A LayerNorm or RMSNorm with its learned parameters, as a function of numpy arrays."""

    kind: Literal["layernorm", "rmsnorm"]
    gain: Float[np.ndarray, " d"]
    bias: Float[np.ndarray, " d"]
    """Bias that the norm adds to each vector; zeros where it has none."""
    eps: float
    """Number that is added to the mean square of a vector before the root is taken."""

    def centred(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The vectors x, minus the mean of their entries if the norm is a LayerNorm; an RMSNorm leaves x as it is."""
        return x - x.mean(axis=-1, keepdims=True) if self.kind == "layernorm" else x

    def standardised(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """LayerNorm or RMSNorm of `x` without gain and bias: vectors of mean square 1, or slightly less due to eps."""
        x = self.centred(x)
        return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + self.eps)

    def __call__(self, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        """The vectors x after the norm, with gain and bias, in float64."""
        return self.gain * self.standardised(x) + self.bias


@dataclass(frozen=True)
class Rotation:
    """The rotary embedding of a text (Su et al. 2021): turns pairs of coordinates by angles that depend on position.

    `cos` and `sin` have a row for each position and r columns. Coordinates c and c + r/2, for c < r/2, are a pair;
    those from r on stay. As `cos` and `sin` are rounded to float32, lengths change by up to a relative 1e-7.
    """

    cos: Float[np.ndarray, "n r"]
    sin: Float[np.ndarray, "n r"]

    def __call__(self, x: Float[np.ndarray, "heads n d_head"]) -> Float[np.ndarray, "heads n d_head"]:
        """The queries or keys x, each turned by the angles of its position."""
        turned, rest = np.split(x, [self.cos.shape[1]], axis=-1)
        first, second = np.split(turned, 2, axis=-1)
        quarter = np.concatenate([-second, first], axis=-1)
        return np.concatenate([turned * self.cos + quarter * self.sin, rest], axis=-1)


@dataclass(frozen=True)
class Projection:
    """The map from the input of attention to the queries or keys of every head, as a function of numpy arrays.

    It is a linear map, followed by a norm and by a rotary embedding where the model has them.
    """

    weight: Float[np.ndarray, "heads d_head d"]
    """W_Q or W_K: for each head, the matrix that maps the attention input to queries or keys."""
    bias: Float[np.ndarray, "heads d_head"]
    """b_Q or b_K, which is added to each head's queries or keys; zero where there is none."""
    norm: LearnedNorm | None
    """A norm of each query or key after the linear map, as in Qwen 3; None where there is none."""
    rotation: Rotation | None
    """The rotary embedding that turns the queries or keys last; None where there is none."""

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "heads n d_head"]:
        """The queries or keys of every head, made from the attention inputs x."""
        out = x @ self.weight.swapaxes(1, 2) + self.bias[:, None]
        out = self.norm(out) if self.norm else out
        return self.rotation(out) if self.rotation else out


@dataclass(frozen=True)
class Layer:
    """The queries, keys, inputs and parameters of one layer's attention on a text of n tokens, as numpy arrays.

    The scores of a head are queries @ keys.T * scaling, where `queries` and `keys` are those of the head.
    """

    layer: int
    """Number of the layer, from 1, as the model numbers its layers; layers without attention count."""
    queries: Float[np.ndarray, "heads n d_head"]
    """Queries as they meet the keys: after a rotary embedding, before `scaling`."""
    keys: Float[np.ndarray, "key_heads n d_head"]
    """Keys as they meet the queries: after a rotary embedding. Several query heads may share a key head."""
    scaling: float
    """Factor of the inner products of queries and keys in the scores, usually 1 / sqrt(d_head)."""
    visible: Bool[np.ndarray, "n n"]
    """Whether the query of a row may attend to the key of a column (the attention mask)."""
    attention_input: Float[np.ndarray, "n d"] | None
    """Input of the projections to queries and keys; None if it is not known how these come from it."""
    before_norm: Float[np.ndarray, "n d"] | None
    """Residual stream before the norm whose output is `attention_input`; None if it is not known."""
    norm: LearnedNorm | None
    """The norm before attention: attention_input = norm(before_norm). None if unknown, or no LayerNorm or RMSNorm."""
    query_projection: Projection | None
    """W_Q, b_Q and what follows: queries = query_projection(attention_input). None where `attention_input` is None."""
    key_projection: Projection | None
    """W_K, b_K and what follows: keys = key_projection(attention_input). None where `attention_input` is None."""

    @property
    def causal(self) -> bool:
        """Whether the attention mask keeps every query from all keys after its own position."""
        return not np.triu(self.visible, 1).any()

    def key_head(self, head: int) -> int:
        """The index of the key head that query head `head` uses.

        In grouped-query attention (Ainslie et al. 2023) query heads share key heads: with 4 query heads and 2 key
        heads, query heads 0 and 1 use key head 0.
        """
        return head // (len(self.queries) // len(self.keys))

    def attention(self, head: int, rows: slice = slice(None)) -> Float[np.ndarray, "queries n"]:
        """The attention weight that each query (row) of query head `head` gives each key (column), as in the model.

        `rows` takes some of the queries only.
        """
        weights = self.queries[head, rows] @ self.keys[self.key_head(head)].T
        weights *= self.scaling
        weights[~self.visible[rows]] = -np.inf
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights

    def received_max(self, head: int) -> Float[np.ndarray, " n"]:
        """The largest attention weight that each key gets from a query of head `head`."""
        n = len(self.visible)
        blocks = slices(n, _SCORES // n)
        return np.max([self.attention(head, rows).max(axis=0) for rows in blocks], axis=0)


def layers(model: Any, contexts: Mapping[int, Sequence[int]], what: str) -> Iterator[tuple[int, Layer]]:
    """Yield (number of the text, `Layer`) for each text in `contexts` and each layer that has attention, in order.

    `contexts` maps the number of each text to its token ids. `model` has a method `record` that takes token ids, such
    as `GPT.record`. `what` is the title of the progress messages.
    """
    progress = Progress(what, len(contexts), "contexts")
    for done, (number, tokens) in enumerate(contexts.items(), start=1):
        for layer in model.record(tokens):
            yield number, layer
        progress(done)
