"""What the projections of a pretrained model's norms take away, and what its attention would be without them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from layernorm_roles import ones_direction
from layernorm_roles.pretrained.recording import RecordingModel

CHANGES = {"rmsnorm": "left out", "layernorm": "added"}
"""What was done to the projection, by the kind of the norms as they then are."""


def ones_shares(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """The columns of table ones_share from context on; `contexts` has the token ids of each context by its number."""
    parts = [
        ones_direction.table(model.network, lambda tokens=tokens: model.record(tokens)).assign(context=number)
        for number, tokens in contexts.items()
    ]
    return pd.concat(parts, ignore_index=True)


def shifts(model: RecordingModel, contexts: Mapping[int, Sequence[int]]) -> pd.DataFrame:
    """How far attention moves when each norm of the stream loses its projection, or gets one; from context on.

    The columns are those of table projection_shift but model. No rows for a model whose norms are not known.
    """
    rows = []
    for number, tokens in contexts.items():
        usual, changed = model.record(tokens), model.record(tokens, projection_changed=True)
        kinds = {layer.norm.kind for layer in changed if layer.norm}
        if len(kinds) != 1:  # no norm is known, or a model has both kinds
            continue
        change = CHANGES[kinds.pop()]
        for before, after in zip(usual, changed, strict=True):
            for head in range(len(before.queries)):
                moved = np.abs(before.attention(head) - after.attention(head)).sum(axis=-1).mean() / 2
                rows.append((number, before.layer, head, change, moved))
    return pd.DataFrame(rows, columns=["context", "layer", "head", "change", "total_variation"])
