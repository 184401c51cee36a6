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
    """A change of norms, for `RecordingModel.record`: a LayerNorm loses its projection, and an RMSNorm gets one.

    A projection subtracts the mean of the input times the ones vector, here `direction`. With another direction of
    length sqrt(d), as a control, a projected LayerNorm adds, and an RMSNorm subtracts, the mean times that direction.
    """

    def change(norm: LearnedNorm, x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n d"]:
        sign = 1 if norm.kind == "layernorm" else -1
        moved = norm.centred(x) + sign * x.mean(axis=-1, keepdims=True) * direction
        return replace(norm, kind="rmsnorm")(moved)

    return change


def random_direction(d: int, context: int) -> Float[np.ndarray, " d"]:
    """A random vector of length sqrt(d), orthogonal to the ones vector, drawn for the context with number `context`."""
    u = generator(Stream.RANDOM_DIRECTION, context, d).standard_normal(d)
    u -= u.mean()
    return u * np.sqrt(d) / np.linalg.norm(u)


def ones_shares(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """Table `ones_share` but for columns of the model: norms' inputs' share of squared length along the ones vector."""
    parts = [
        ones_direction.table(model.network, lambda tokens=tokens: model.record(tokens)).assign(context=number)
        for number, tokens in contexts.items()
    ]
    return pd.concat(parts, ignore_index=True)


def shifts(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """Table `projection_shift` without its column model: how far attention moves when norms lose or get a projection.

    Every LayerNorm of the residual stream loses its projection, or every RMSNorm gets one. How far attention moves is
    half the sum of absolute differences of weights, a mean over queries. Column random_direction has the control, with
    a random direction in place of the ones vector. `contexts` has token ids by the context's number. A model whose
    norms are unknown, or of both kinds, has no rows.
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
