"""When language models begin to attend, and how large the input of attention is by then."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import language_model
from layernorm_roles.variants import maps, scaled

ONSET = 0.02
"""Nats per token that setting all attention scores to 0 adds to the loss of a model once it has begun to attend."""

EARLY = 0.1
"""Share of a training after which the size of attention's input is read: 5,000 of the paper's 50,000 steps."""

RUN = ["model", *language_model.RUN]
"""Columns of table language_model_attention that tell the training runs apart."""


def onsets(attention: pd.DataFrame) -> pd.DataFrame:
    """Return, for each run with attention, the training step at which attention scores begin to matter to its loss.

    `attention` is the table language_model_attention. Columns: model, variant, seed, base_learning_rate; steps, the
    length of the run; onset, the first measured step at which setting all attention scores to 0 adds at least 0.02
    (ONSET) nats per token to the validation loss, NaN if there is none; last_step, the last measured step; input_rms,
    the root mean square of attention's input, averaged over layers, at the measured step nearest to a tenth (EARLY) of
    the run.
    """
    rows = []
    for run, part in attention.groupby(RUN):
        whole, of_layers = part[part.layer.isna()], part[part.layer.notna()]
        if of_layers.empty:
            continue
        reached = whole.step[whole.zero_scores_worth >= ONSET]
        early = of_layers.step.iloc[(of_layers.step - EARLY * run[-1]).abs().argmin()]
        size = of_layers.input_rms[of_layers.step == early].mean()
        rows.append((*run, reached.min() if len(reached) else np.nan, whole.step.max(), size))
    return pd.DataFrame(rows, columns=[*RUN, "onset", "last_step", "input_rms"])


class Dose(NamedTuple):
    """A norm variant whose outputs are `size` times the outputs of the built-in norm `family`."""

    family: str
    size: float


FAMILIES = {(True, True): "layernorm", (True, False): "projection", (False, True): "scale"}
"""Names of built-in norms without a factor, by whether they project and whether they scale."""


def dose(variant: str, norms: Mapping[str, Any], d_model: int = 1) -> Dose | None:
    """Return the built-in norm of which a variant is a multiple, and the factor, for vectors of size `d_model`.

    `norms` has the norms that a configuration adds, by name. If the variant divides by the size of its vectors, the
    factor includes this division; a `d_model` of 1 leaves it out. The result is None if the variant is no multiple: if
    it learns anything, is a user's own class, neither projects nor scales, or has different norms for keys and values.
    """
    entry = norms.get(variant, variant)
    both = maps(scaled(**entry) if isinstance(entry, Mapping) else entry)
    if both is None or both[0] != both[1] or both[0].learns != "nothing":
        return None
    family = FAMILIES.get((both[0].projects, both[0].scales))
    size = both[0].factor / (d_model if both[0].divides_by_d else 1)
    return family and Dose(family, size)
