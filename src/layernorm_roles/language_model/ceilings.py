"""How much attention the keys of a GPT can get: certified ceilings of a trained and an untrained model's heads.

The weights are known exactly, so the queries that a head can make behind a LayerNorm are, too. The network runs in
float64 with its float32 weights, as for the verdicts of `keys`.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from layernorm_roles import store
from layernorm_roles.job import Progress
from layernorm_roles.language_model.activations import queries_and_keys
from layernorm_roles.language_model.model import GPT, CausalSelfAttention
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import task_type
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import AS_USED
from layernorm_roles.selectability.ceilings import QueryEllipsoid
from layernorm_roles.selectability.ceilings_rows import attention, received, rows, verified

CONTEXTS = 1
"""Long contexts whose keys are looked at, the first ones: seeds differ more than contexts do."""


def measure_run(run: LanguageModelRun, weights: Mapping[str, Path], out: Path, threads: int) -> None:
    """Write table language_model_ceilings of one run of a GPT.

    `weights` has a file for each name of a checkpoint (initial, final). A run that diverged has no rows of its final
    checkpoint. Raises ValueError if a file is damaged or the weights are of another run.
    """
    torch.set_num_threads(threads)
    contexts = run.contexts()
    contexts = contexts[contexts.texts == "long"].head(CONTEXTS)
    words = {
        token: run.tokenizer.decode([token]) for tokens in contexts.tokens for token in set(tokens.tolist())
    }
    parts = []
    for name, network in run.restored(weights):
        parts.append(table(network, contexts, words, run.norm).assign(checkpoint=name))
    frame = pd.concat(parts, ignore_index=True).assign(model=run.model, variant=run.variant, seed=run.seed)
    streams = (*task_type(run.settings).streams, Stream.TEXT_SELECTION)
    metadata = provenance(run.identity, "cpu", *streams, torch=True)
    store.write(frame, "language_model_ceilings", out, metadata)


def table(network: GPT, contexts: pd.DataFrame, words: Mapping[int, str], norm: str) -> pd.DataFrame:
    """Ceilings of the keys of every head in each row of table `contexts`, every bound verified.

    `words` has the text of each token, `norm` is what `norms.build_pair` takes. Ceilings are among all keys of a
    context, though the queries that give `received_max` see those up to their position alone. The frame lacks the
    columns that name the model.
    """
    network = network.double().eval()
    progress = Progress("ceilings", len(contexts), "contexts")
    parts = []
    for done, context in enumerate(contexts.itertuples(), start=1):
        tokens = context.tokens.tolist()
        recorded = queries_and_keys(network, [torch.tensor([tokens])])
        visible = np.tril(np.ones((len(tokens), len(tokens)), bool))
        spelt = [words[token] for token in tokens]
        for number, layer in enumerate(network.layers, start=1):
            behind = queries_behind_norm(layer.attention, norm)
            place = f"layer_{number}.context_0"
            queries, keys = (recorded[f"{place}.{name}"].numpy() for name in ("queries", "keys"))
            for head, matrix in enumerate(keys):
                got = received(attention(queries[head], matrix, visible), visible)
                for among in (None, behind[head]) if behind else (None,):
                    part = rows(head, matrix, verified(matrix, among), AS_USED, got)
                    parts.append(part.assign(context=context.context, layer=number, token=spelt))
        progress(done)
    return pd.concat(parts, ignore_index=True)


def queries_behind_norm(module: CausalSelfAttention, norm: str) -> list[QueryEllipsoid] | None:
    """All queries that each head can make behind `norm`, on any text, as used in scores; None if it confines none.

    They are known for LayerNorm without gain and bias. Without scaling a long input makes a long query.
    """
    if norm != "layernorm":
        return None
    d = module.qkv.in_features
    w_q = module.qkv.weight.detach()[:d].unflatten(0, (module.heads, -1)).numpy()
    return [QueryEllipsoid.of_layernorm(w, None, np.ones(d), None) for w in w_q]
