"""Which keys attention can select: certified verdicts for every layer of a model, trained and untrained.

The network runs in float64 with its float32 weights: normalised keys then lie on their sphere to 16 digits, and
rounding does not decide which key is inside the convex hull of the others.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from tokenizers import Tokenizer
from torch import nn

from layernorm_roles import ones_direction, store
from layernorm_roles.heads.keys import judged, table
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import task_type
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.variants import QUERY_KEY_VARIANT, SPLIT_VARIANTS, VARIANTS


class Verdicts(NamedTuple):
    """Which keys are selectable, in two tables."""

    selectability: pd.DataFrame
    """Table key_selectability: the number of unselectable keys of each context, layer, site and head."""
    tokens: pd.DataFrame
    """Table sentence_tokens: the verdict of every token of the sentences, at the input of attention."""


def collect_run(
    run: LanguageModelRun, weights: Mapping[str, Path], out: Mapping[str, Path], threads: int
) -> None:
    """Write the verdicts of one run's checkpoints, and what enters their norms on the first context that they read.

    `weights` has a file for each name of a checkpoint (initial, final), `out` one for each table (selectability,
    tokens, ones). A run that diverged has no rows of its final checkpoint. Raises ValueError if a file is damaged or
    the weights are of another run.
    """
    torch.set_num_threads(threads)
    contexts = run.contexts()
    sites = sites_of(run.variant, run.norm, run.settings.architecture)
    first, parts = contexts.iloc[0], []
    window = torch.tensor([[*run.prefix, *first.tokens.tolist()]])
    for name, model in run.restored(weights):
        part = collect(model, contexts, run.tokenizer, sites, run.prefix)
        ones = ones_direction.table(model, lambda model=model: model(window)).assign(context=first.context)
        columns = {"model": run.model, "variant": run.variant, "seed": run.seed, "checkpoint": name}
        parts.append([frame.assign(**columns) for frame in (*part, ones)])
    selectability, tokens, ones = (pd.concat(frames) for frames in zip(*parts, strict=True))
    streams = (*task_type(run.settings).streams, Stream.TEXT_SELECTION)
    metadata = provenance(run.identity, "cpu", *streams, torch=True)
    store.write(tokens, "sentence_tokens", out["tokens"], metadata)
    store.write(selectability, "key_selectability", out["selectability"], metadata)
    store.write(ones, "language_model_ones_share", out["ones"], metadata)


def sites_of(variant: str, norm: str, architecture: str) -> tuple[str, ...]:
    """Where the keys of a model are looked at: sites of `heads.keys.stacks_at`.

    The last of them are those where keys come out of a scaling, with nothing after it, looked at with eps = 0; one's
    own norm counts as none, and BERT's norms have a gain.
    """
    sites = ("before_norm", "after_norm", "head")
    if architecture != "gpt":
        return sites
    if variant == QUERY_KEY_VARIANT:
        return (*sites, "after_norm_exact", "head_exact")
    of_keys = SPLIT_VARIANTS[norm].queries_keys if norm in SPLIT_VARIANTS else norm
    built_in = VARIANTS.get(of_keys)
    exact = built_in and built_in.scales and built_in.learns == "nothing"
    return (*sites, "after_norm_exact") if exact else sites


def collect(
    model: nn.Module,
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
    sites: Sequence[str],
    prefix: tuple[int, ...] = (),
) -> Verdicts:
    """Certified verdicts for the keys of each row of table `contexts`, which has the long texts before the sentences.

    `sites` are sites of `heads.keys.stacks_at`, `prefix` holds tokens that stand before each text. The frames lack the
    columns that name the model. Raises ValueError if a certificate does not prove its verdict.
    """
    model, spell = model.double().eval(), _spelling(tokenizer)
    tables, tokens = [], []
    for texts, part in contexts.groupby("texts", sort=False):
        ids = {row.context: [*prefix, *row.tokens.tolist()] for row in part.itertuples()}
        rows = []
        for found in judged(model, ids, sites, f"key verdicts ({texts})"):
            rows += found.rows()
            if texts == "sentences" and found.site == "after_norm":
                verdicts = zip(ids[found.context], found.certificates.verdict[0], strict=True)
                tokens += [
                    (found.context, found.layer, position, spell(token), verdict)
                    for position, (token, verdict) in enumerate(verdicts)
                ]
        tables.append(table(rows).assign(texts=texts))
    words = pd.DataFrame(tokens, columns=["context", "layer", "position", "token", "verdict"])
    return Verdicts(pd.concat(tables, ignore_index=True), words)


def _spelling(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A function from a token to its text; a part of a character shows as the replacement character."""
    return lambda token: tokenizer.decode([token]) if token < tokenizer.get_vocab_size() else "[CLS]"
