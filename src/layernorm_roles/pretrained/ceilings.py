"""How much attention the keys of a pretrained model can get: certified ceilings, beside what they do get."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from layernorm_roles.job import Progress
from layernorm_roles.pretrained.keys import keys_without_norm
from layernorm_roles.pretrained.recording import RecordedLayer, RecordingModel
from layernorm_roles.schemas import AS_USED, WITHOUT_NORM
from layernorm_roles.selectability.ceilings import QueryEllipsoid
from layernorm_roles.selectability.ceilings_rows import received, rows, verified


def queries_behind_norm(layer: RecordedLayer, head: int) -> QueryEllipsoid | None:
    """All queries that a head can make of what its norm lets through, as used in scores; None where not known.

    Not known are heads whose norm is unknown, whose queries are normed once more, or turned by a rotary embedding:
    then each position has an ellipsoid of its own.
    """
    norm, projection = layer.norm, layer.query_projection
    if norm is None or projection is None or projection.norm is not None or projection.rotation is not None:
        return None
    w_q, b_q = projection.weight[head], projection.bias[head]
    if norm.kind == "layernorm":
        return QueryEllipsoid.of_layernorm(w_q, b_q, norm.gain, norm.bias, scale=layer.scaling)
    return QueryEllipsoid.of_rmsnorm(w_q, b_q, norm.gain, scale=layer.scaling)


def table(
    model: RecordingModel, chosen: Mapping[int, Sequence[int]], name: str, spell: Mapping[int, str]
) -> pd.DataFrame:
    """Table attention_ceilings of a pretrained model, every bound verified.

    `chosen` has the token ids of each context by its number, `spell` the text of each token id that occurs, and `name`
    goes to the column model. Every ceiling is among all keys of the context, also in a causal model, whose queries
    meet fewer. A head whose norm is not known has no rows without the norm, nor any for the queries behind it.
    """
    progress = Progress(f"ceilings of {name}", len(chosen), "contexts")
    parts = []
    for done, (number, tokens) in enumerate(chosen.items(), start=1):
        words = [spell[token] for token in tokens]
        for layer in model.record(tokens):
            for part in _of_layer(layer):
                parts.append(part.assign(context=number, layer=layer.layer, token=words))
        progress(done)
    frame = pd.concat(parts, ignore_index=True)
    frame = frame.assign(model=name, variant=None, seed=None, checkpoint="pretrained")
    return frame.astype({"variant": "object", "seed": "Int64"})


def _of_layer(layer: RecordedLayer) -> Iterator[pd.DataFrame]:
    """The rows of each head, kind of keys and set of queries of one layer."""
    share = len(layer.queries) // len(layer.keys)  # query heads that share a key head
    weights = layer.attention()
    kinds = {AS_USED: layer.keys, WITHOUT_NORM: keys_without_norm(layer)}
    for normalised, keys in kinds.items():
        for key_head, matrix in enumerate(() if keys is None else keys):
            anywhere = verified(matrix)
            for head in range(key_head * share, (key_head + 1) * share):
                got = received(weights[head], layer.visible) if normalised == AS_USED else None
                yield rows(head, matrix, anywhere, normalised, got)
                behind = queries_behind_norm(layer, head)
                if behind is not None:
                    yield rows(head, matrix, verified(matrix, behind), normalised, got)
