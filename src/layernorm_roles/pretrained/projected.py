"""What the projections of a pretrained model's norms take away, and what its attention would be without them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles import ones_direction
from layernorm_roles.heads.layer import LearnedNorm
from layernorm_roles.pretrained.recording import NormChange, RecordingModel
from layernorm_roles.random_streams import Stream, generator


def projection_changed(direction: Float[np.ndarray, " d"]) -> NormChange:
    """A change of norms: LayerNorm goes without its projection, RMSNorm gets one, along `direction`, of length sqrt(d).

    A projection takes away the mean of the input times the ones vector. With the ones vector as direction a LayerNorm
    no longer does, and an RMSNorm does; with another direction as much is added or taken away along that one.
    """

    def change(norm: LearnedNorm, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        sign = 1 if norm.kind == "layernorm" else -1
        moved = norm.centred(x) + sign * x.mean(axis=-1, keepdims=True) * direction
        return replace(norm, kind="rmsnorm")(moved)

    return change


def random_direction(d: int, context: int) -> Float[np.ndarray, " d"]:
    """A random vector that is orthogonal to the ones vector, and as long as that, for one context."""
    u = generator(Stream.RANDOM_DIRECTION, context, d).standard_normal(d)
    u -= u.mean()
    return u * np.sqrt(d) / np.linalg.norm(u)


def ones_shares(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """How much of norms' inputs lies along the ones vector: table ones_share; `contexts` has token ids by number."""
    parts = [
        ones_direction.table(model.network, lambda tokens=tokens: model.record(tokens)).assign(context=number)
        for number, tokens in contexts.items()
    ]
    return pd.concat(parts, ignore_index=True)


def shifts(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """How far attention moves when every norm of the residual stream loses its projection, or gets one.

    The columns are those of table projection_shift but model. There are no rows for a model whose norms are not known.
    """
    rows = []
    for number, tokens in contexts.items():
        usual = model.record(tokens)
        kinds = {layer.norm.kind for layer in usual if layer.norm}
        if len(kinds) != 1:  # no norm is known, or a model has both kinds
            continue
        d = next(layer.before_norm.shape[-1] for layer in usual if layer.norm)
        directions = np.ones(d), random_direction(d, number)
        changed = (model.record(tokens, projection_changed(direction)) for direction in directions)
        change = {"layernorm": "left out", "rmsnorm": "added"}[kinds.pop()]  # the projection
        for before, *after in zip(usual, *changed, strict=True):
            for head in range(len(before.queries)):
                moved = (
                    np.abs(before.attention(head) - layer.attention(head)).sum(axis=-1).mean() / 2
                    for layer in after
                )
                rows.append((number, before.layer, head, change, *moved))
    columns = ["context", "layer", "head", "change", "total_variation", "random_direction"]
    return pd.DataFrame(rows, columns=columns)
