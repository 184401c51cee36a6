"""Which keys of a pretrained model some query can select, as the heads use them and without the norm's scaling."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles.job import Progress
from layernorm_roles.pretrained.contexts import contexts, encoder
from layernorm_roles.pretrained.recording import RecordedLayer, RecordingModel, load
from layernorm_roles.pretrained.source import locate
from layernorm_roles.selectability.certificates import Summary, summaries
from layernorm_roles.selectability.certify import certify_many
from layernorm_roles.settings.pretrained import PretrainedModel

SITES = ("before_norm", "after_norm", "head", "head_without_norm")
"""Where keys are looked at: the residual stream before the norm; the input of attention, after it; the keys of a
head, as the head uses them; and those that it would have without the norm's scaling, see `keys_without_norm`."""


def model_table(name: str, settings: PretrainedModel, texts: Iterable[str]) -> pd.DataFrame:
    """`table` for the model that config.yaml describes under pretrained.`name`, on the first long enough texts.

    The column context is the place of the text in `texts`. Raises ValueError, in one line, if the model's files are
    missing or cannot be used, or if the texts are too few or too short.
    """
    files = locate(name, settings)
    model = load(files)
    if model.longest is not None and settings.context_length > model.longest:
        raise ValueError(
            f"pretrained.{name}.context_length = {settings.context_length}: expected at most {model.longest}, "
            "which the model reads"
        )
    chosen = contexts(texts, encoder(files), settings.context_length, settings.contexts, name)
    return table(model, chosen, name)


def table(model: RecordingModel, chosen: Mapping[int, Sequence[int]], name: str) -> pd.DataFrame:
    """The number of unselectable keys of every context, layer, site and head, certified.

    `chosen` has the token ids of each context by its number, which goes to the column context; `name` goes to the
    column model. A layer whose norm or projections are not known has fewer sites. The columns are those of table
    key_selectability that name neither a variant nor a checkpoint.
    """
    progress = Progress(f"keys of {name}", len(chosen), "contexts")
    rows = []
    for done, (number, tokens) in enumerate(chosen.items(), start=1):
        for layer in model.record(tokens):
            for site, stack in _sites(layer):
                for head, summary in enumerate(summaries(certify_many(stack))):
                    of_head = head if site.startswith("head") else None
                    rows.append((name, number, layer.layer, site, of_head, stack.shape[2], *summary))
        progress(done)
    frame = pd.DataFrame(
        rows, columns=["model", "context", "layer", "site", "head", "dimensions", *Summary._fields]
    )
    frame.insert(5, "n_keys", frame.pop("n_keys"))
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


def _sites(layer: RecordedLayer) -> Iterator[tuple[str, Float[np.ndarray, "stack n d"]]]:
    """Each known site of SITES with its keys: one matrix in the residual stream, a matrix for each head elsewhere."""
    for site, matrix in (("before_norm", layer.before_norm), ("after_norm", layer.attention_input)):
        if matrix is not None:
            yield site, matrix[None]
    yield "head", layer.keys
    if (keys := keys_without_norm(layer)) is not None:
        yield "head_without_norm", keys
