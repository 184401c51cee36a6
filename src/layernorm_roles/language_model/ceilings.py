"""How much attention the keys of a GPT can get: certified ceilings of a trained and an untrained model's heads.

The weights are known exactly, so the queries that a head can make behind a LayerNorm are, too. The network runs in
float64 with its float32 weights, as for the verdicts of `keys`.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import torch

from layernorm_roles import store
from layernorm_roles.heads.ceilings import pairs, summary
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import task_type
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import AS_USED


def measure_run(
    run: LanguageModelRun, weights: Mapping[str, Path], out: Path, threads: int, number: int
) -> None:
    """Write table language_model_ceilings of one run of a GPT, for its first `number` long contexts.

    `weights` has a file for each name of a checkpoint (initial, final). A run that diverged has no rows of its final
    checkpoint. Raises ValueError if a file is damaged or the weights are of another run.
    """
    torch.set_num_threads(threads)
    contexts = run.contexts()
    contexts = contexts[contexts.texts == "long"].head(number)
    tokens = {row.context: row.tokens.tolist() for row in contexts.itertuples()}
    parts = []
    for name, network in run.restored(weights):
        found = pairs(network.double().eval(), tokens, [AS_USED], "ceilings")
        parts.append(summary(found).assign(checkpoint=name))
    frame = pd.concat(parts, ignore_index=True).assign(model=run.model, variant=run.variant, seed=run.seed)
    streams = (*task_type(run.settings).streams, Stream.TEXT_SELECTION)
    metadata = provenance(run.identity, "cpu", *streams, torch=True)
    store.write(frame, "language_model_ceilings", out, metadata)
