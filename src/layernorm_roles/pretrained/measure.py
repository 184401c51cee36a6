"""What is measured of a pretrained model: which keys some query can select, and how much attention keys can get."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from layernorm_roles import store
from layernorm_roles.heads import ceilings, keys
from layernorm_roles.memory import warn
from layernorm_roles.pretrained.contexts import contexts, first_of_each_document, tokens_of
from layernorm_roles.pretrained.projected import ones_shares, shifts
from layernorm_roles.pretrained.recording import RecordingModel, load, untrained
from layernorm_roles.pretrained.source import locate
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import AS_USED, WITHOUT_NORM
from layernorm_roles.script import Progress, naming
from layernorm_roles.settings.pretrained import PretrainedModel
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.prepared import PreparedText

SITES = ("before_norm", "after_norm", "head", "head_without_norm", "head_cut")
"""Where a layer's keys are tested, if known: in the residual stream before and after the norm, and in the heads as they
are, without the norm, and in fewer dimensions (see `heads.keys.stacks_at`)."""
UNTRAINED_SEED = 0
"""Seed of the random weights of the untrained network with which a pretrained one is compared."""


def measure(name: str, settings: PretrainedModel, texts: list[str]) -> dict[str, pd.DataFrame]:
    """Measure the pretrained model `name` of config.yaml on `texts`, and return the tables of results by name.

    The tables say which keys some query can select, how much attention keys can get, and how attention changes if the
    norms lose or get a projection. The first texts that are long enough are read; column context has their index in
    `texts`. The attention of the first context is compared with transformers' own. Raises ValueError if files of the
    model are missing or cannot be used, if its attention cannot be measured, or if no text is long enough.
    """
    files, key = locate(name, settings), f"pretrained.{name}"
    with naming(key):
        model, tokens = load(files), tokens_of(files)
    if model.longest is not None and settings.context_length > model.longest:
        raise ValueError(
            f"{key}.context_length = {settings.context_length}: expected at most {model.longest}, "
            "which the model reads"
        )
    chosen = contexts(texts, tokens, settings.context_length, settings.contexts, name)
    with naming(key):
        model.check(next(iter(chosen.values())))
        words = {number: [tokens.spell(token) for token in ids] for number, ids in chosen.items()}
        tables = _of_heads(model, name, chosen, words, settings.cuts)
        trained = ones_shares(model, chosen).assign(seed=None, checkpoint="pretrained")
        tables["projection_shift"] = shifts(model, chosen)
        config = model.network.config
        del model  # one network at a time is in memory
        random = ones_shares(untrained(config, UNTRAINED_SEED), chosen)
    shares = pd.concat([trained, random.assign(seed=UNTRAINED_SEED, checkpoint="random")], ignore_index=True)
    tables["ones_share"] = shares.assign(variant=None).astype({"seed": "Int64"})
    return {table: frame.assign(model=name) for table, frame in tables.items()}


def _of_heads(
    model: RecordingModel,
    name: str,
    contexts: Mapping[int, Sequence[int]],
    words: Mapping[int, Sequence[str]],
    cuts: Sequence[int],
) -> dict[str, pd.DataFrame]:
    """The tables of the keys of heads and of their ceilings; says which layers have nothing but heads."""
    verdicts, pairs, progress, done = [], [], None, 0
    for number, ids in contexts.items():
        recorded = model.record(ids)
        if progress is None:
            progress = Progress(f"heads of {name}", len(contexts) * len(recorded), "layers")
            if alone := [str(layer.layer) for layer in recorded if layer.norm is None]:
                warn(
                    f"pretrained.{name}: heads alone are measured in layers {', '.join(alone)} of "
                    f"{model.architecture}, whose queries and keys could not be traced to a norm of the "
                    "residual stream and matrices"
                )
        while recorded:  # each is dropped once it has been measured
            layer = recorded.pop(0)
            verdicts += [row for one in keys.certified(layer, SITES, cuts) for row in one.rows(number)]
            pairs.append(ceilings.pairs(layer, (AS_USED, WITHOUT_NORM)).assign(context=number))
            progress(done := done + 1)
    pairs = pd.concat(pairs, ignore_index=True)
    summary = ceilings.summary(pairs).assign(variant=None, seed=None, checkpoint="pretrained")
    return {
        "pretrained_keys": keys.table(verdicts),
        "attention_ceilings": summary.astype({"seed": "Int64"}),
        "token_ceilings": ceilings.of_tokens(pairs, words),
    }


def measure_files(plan: Mapping[str, Any], manifest: str | Path, out: Mapping[str, str | Path]) -> None:
    """Measure the pretrained model in `plan` on a text's held-out documents, and write the tables to Parquet files.

    `manifest` is the path of the text's manifest, beside its other files. `out` has the path of each table by its name.
    """
    checked, text = PretrainedModel.model_validate(plan["settings"]), PreparedText(Path(manifest).parent)
    held_out = first_of_each_document(store.read(text.contexts, "contexts"), tokenizers.load(text.tokenizer))
    measured = measure(plan["model"], checked, held_out)
    streams = Stream.TEXT_SELECTION, Stream.RANDOM_DIRECTION
    about = provenance(plan, "cpu", *streams, torch=True)
    for table, frame in measured.items():
        store.write(frame, table, out[table], about)
