"""Which keys of a pretrained model some query can select, as the heads use them and without the norm's scaling."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles.job import Progress
from layernorm_roles.pretrained.recording import RecordedLayer, RecordingModel
from layernorm_roles.selectability.certificates import Summary, summaries
from layernorm_roles.selectability.certify import certify_many

SITES = ("before_norm", "after_norm", "head", "head_without_norm", "head_cut")
"""Where keys are looked at: the residual stream before the norm; the input of attention, after it; the keys of a
head, as the head uses them; those that it would have without the norm's scaling, see `keys_without_norm`; and the
keys of a head in their first principal components, see `cut`."""
CUTS = (2, 4, 6, 8, 10, 12, 16, 24)
"""Numbers of principal components to which the keys of a head are cut, where the head has more dimensions."""


def table(model: RecordingModel, chosen: Mapping[int, Sequence[int]], name: str) -> pd.DataFrame:
    """Table pretrained_keys: the number of unselectable keys of every context, layer, site and head, certified.

    `chosen` has the token ids of each context by its number, which goes to the column context; `name` goes to the
    column model. A layer whose norm or projections are not known has fewer sites. The keys of the heads of a causal
    model are judged once more among the keys before them; those cut to principal components are not. Raises ValueError
    if a certificate does not prove its verdict.
    """
    progress = Progress(f"keys of {name}", len(chosen), "contexts")
    rows = []
    for done, (number, tokens) in enumerate(chosen.items(), start=1):
        for layer in model.record(tokens):
            for site, stack in _sites(layer):
                for causal in (False, True) if layer.causal and site == "head" else (False,):
                    certificates = certify_many(stack, causal, flat=True)
                    for head, summary in enumerate(summaries(certificates, stack)):
                        of_head = head if site.startswith("head") else None
                        where = (name, number, layer.layer, site, of_head)
                        rows.append((*where, causal, stack.shape[2], *summary))
        progress(done)
    place = ["model", "context", "layer", "site", "head", "causal", "dimensions"]
    frame = pd.DataFrame(rows, columns=[*place, *Summary._fields])
    return frame.astype({"head": "Int64", "min_margin": "float64", "max_residual": "float64"})


def keys_without_norm(layer: RecordedLayer) -> Float[np.ndarray, "key_heads n d_head"] | None:
    """The keys that the heads of a layer would have if its norm scaled all vectors by one number; None if unknown.

    A norm divides each vector by its own length. Here the stream before the norm, projected (for a LayerNorm), is
    multiplied by a single number that gives it the mean square of the standardised stream. The norm's gain and
    bias, W_K, b_K and the rotary embedding follow as in the model.
    """
    if layer.norm is None:
        return None
    scaled = layer.norm.standardised(layer.before_norm)
    stream = layer.norm.centred(layer.before_norm)
    stream = stream * np.sqrt(np.square(scaled).mean() / np.square(stream).mean())
    return layer.key_projection(layer.norm.gain * stream + layer.norm.bias)


def cut(keys: Float[np.ndarray, "heads n d"], dimensions: int) -> Float[np.ndarray, "heads n r"]:
    """The keys of each head in their first r principal components, r = `dimensions`, centred.

    These are the r directions in which the keys of the context differ most, for each head its own.
    """
    centred = keys - keys.mean(axis=1, keepdims=True)
    components = np.linalg.svd(centred, full_matrices=False).Vh[:, :dimensions]
    return centred @ components.swapaxes(1, 2)


def _sites(layer: RecordedLayer) -> Iterator[tuple[str, Float[np.ndarray, "stack n d"]]]:
    """Each known site of SITES with its keys: one matrix in the residual stream, a matrix for each head elsewhere.

    The site head_cut comes once for each of CUTS below the dimension of the heads.
    """
    for site, matrix in (("before_norm", layer.before_norm), ("after_norm", layer.attention_input)):
        if matrix is not None:
            yield site, matrix[None]
    yield "head", layer.keys
    if (keys := keys_without_norm(layer)) is not None:
        yield "head_without_norm", keys
    for dimensions in CUTS:
        if dimensions < min(layer.keys.shape[1:]):
            yield "head_cut", cut(layer.keys, dimensions)
