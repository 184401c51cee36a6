"""What the projection in a pretrained model's norms takes away, and how its attention would change without it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles import ones_direction
from layernorm_roles.heads.layer import Layer, LearnedNorm
from layernorm_roles.pretrained.recording import NormChange, RecordingModel
from layernorm_roles.random_streams import Stream, generator


def projection_changed(direction: Float[np.ndarray, " d"]) -> NormChange:
    """A function that replaces norms' outputs as if each LayerNorm lost its projection and each RMSNorm got one.

    It is meant for the argument `change` of `RecordingModel.record`. Let m be the mean of the entries of a norm's input
    x. A LayerNorm then scales x - m + m direction, and an RMSNorm x - m direction. If `direction` is the ones vector,
    the projection is exactly undone or added. As a control, `direction` is another vector of length sqrt(d).
    """

    def change(norm: LearnedNorm, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        sign = 1 if norm.kind == "layernorm" else -1
        moved = norm.centred(x) + sign * x.mean(axis=-1, keepdims=True) * direction
        return replace(norm, kind="rmsnorm")(moved)

    return change


def random_direction(d: int, context: int) -> Float[np.ndarray, " d"]:
    """A random vector with d entries and length sqrt(d), orthogonal to the ones vector.

    `context` is the number of a context. Equal `d` and `context` give equal vectors.
    """
    u = generator(Stream.RANDOM_DIRECTION, context, d).standard_normal(d)
    u -= u.mean()
    return u * np.sqrt(d) / np.linalg.norm(u)


def ones_shares(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """Rows of the table `ones_share`: which share (0..1) of stream norms' inputs lies along the ones vector.

    Shares are of squared length. A row is for one norm and one context; `contexts` has token ids by context number.
    """
    model.record(next(iter(contexts.values())))  # which norms are the stream's
    parts = [
        ones_direction.table(
            model.network, lambda tokens=tokens: model.record(tokens), model.stream_norms
        ).assign(context=number)
        for number, tokens in contexts.items()
    ]
    return pd.concat(parts, ignore_index=True)


def shifts(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """Rows of the table `projection_shift`: how far attention moves if the norms of `model` lose or get a projection.

    Every LayerNorm of the residual stream loses its projection, or every RMSNorm gets one. A row is for one head in one
    context. total_variation, 0..1, is half the sum of absolute changes of a query's attention weights, as a mean over
    queries; random_direction is this number for the control, where a random direction replaces the ones vector.
    `contexts` maps each context's number to its token ids. There are no rows if norms of neither kind are found, or of
    both.
    """
    rows = []
    for number, tokens in contexts.items():
        usual = model.record(tokens)
        kinds = {layer.norm.kind for layer in usual if layer.norm}
        if len(kinds) != 1:  # no norm is known, or a model has both kinds
            continue
        d = next(layer.before_norm.shape[-1] for layer in usual if layer.norm)
        directions = np.ones(d), random_direction(d, number)
        change = {"layernorm": "left out", "rmsnorm": "added"}[kinds.pop()]  # the projection
        moved = [_moved(usual, model.record(tokens, projection_changed(u))) for u in directions]
        for layer, *by_direction in zip(usual, *moved, strict=True):
            for head, of_head in enumerate(zip(*by_direction, strict=True)):
                rows.append((number, layer.layer, head, change, *of_head))
    columns = ["context", "layer", "head", "change", "total_variation", "random_direction"]
    return pd.DataFrame(rows, columns=columns)


def _moved(usual: Sequence[Layer], changed: Sequence[Layer]) -> list[list[float]]:
    """Total variation between two passes' attention weights, by layer and head, as a mean over queries."""
    return [
        [
            np.abs(before.attention(head) - after.attention(head)).sum(axis=-1).mean() / 2
            for head in range(len(before.queries))
        ]
        for before, after in zip(usual, changed, strict=True)
    ]
