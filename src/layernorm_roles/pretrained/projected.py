"""What the projection in a pretrained model's norms takes away, and how its attention would change without it."""

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
    """A change of a model's norms: every LayerNorm loses its projection, and every RMSNorm gets one.

    It is an argument of `RecordingModel.record`. The mean of an input's entries, times `direction`, is added to the
    vector that a LayerNorm scales, and subtracted from the one that an RMSNorm scales. With the ones vector this undoes
    or makes a projection; as a control, `direction` is another vector of length sqrt(d).
    """

    def change(norm: LearnedNorm, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        sign = 1 if norm.kind == "layernorm" else -1
        moved = norm.centred(x) + sign * x.mean(axis=-1, keepdims=True) * direction
        return replace(norm, kind="rmsnorm")(moved)

    return change


def random_direction(d: int, context: int) -> Float[np.ndarray, " d"]:
    """A random vector of length sqrt(d), orthogonal to the ones vector; equal for equal `d` and `context`.

    `context` is the number of the context for which the vector is drawn.
    """
    u = generator(Stream.RANDOM_DIRECTION, context, d).standard_normal(d)
    u -= u.mean()
    return u * np.sqrt(d) / np.linalg.norm(u)


def ones_shares(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """The share of the squared length of norms' inputs along the ones vector, as rows of the table `ones_share`.

    `contexts` maps the number of each context to its token ids. Columns that name the model are left out.
    """
    parts = [
        ones_direction.table(model.network, lambda tokens=tokens: model.record(tokens)).assign(context=number)
        for number, tokens in contexts.items()
    ]
    return pd.concat(parts, ignore_index=True)


def shifts(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """How far attention moves if the norms of `model` lose or get a projection: rows of the table `projection_shift`.

    Every LayerNorm of the residual stream loses its projection, or every RMSNorm gets one. Column total_variation is
    half the sum of absolute differences of a query's attention weights, averaged over queries; column random_direction
    is its value in the control, with a random direction in place of the ones vector. The column model is left out.
    `contexts` maps the number of each context to its token ids. There are no rows if the model's norms are unknown, or
    of both kinds.
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
