"""Which keys attention can select: certified verdicts for every layer of a model, trained and untrained.

The network runs in float64 with its float32 weights: normalised keys then lie on their sphere to 16 digits, and
rounding does not decide which key is inside the convex hull of the others.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import nn

from layernorm_roles import norms, store
from layernorm_roles.job import Progress
from layernorm_roles.language_model.model import LayerKeys
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import task_type
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.selectability.certificates import Summary, summaries
from layernorm_roles.selectability.certify import certify_many
from layernorm_roles.variants import QUERY_KEY_VARIANT, SPLIT_VARIANTS, VARIANTS

SITES = ("before_norm", "after_norm", "head", "after_norm_exact", "head_exact")
"""Where keys are looked at: the residual stream; what queries and keys are made from; the keys of a head, as the head
uses them; and the last two scaled once more with eps = 0, where they come out of a scaling. The first three say what a
model does, the last two what its scaling would do without the eps."""


class Verdicts(NamedTuple):
    """Which keys are selectable, in two tables."""

    selectability: pd.DataFrame
    """Table key_selectability: the number of unselectable keys of each context, layer, site and head."""
    tokens: pd.DataFrame
    """Table sentence_tokens: the verdict of every token of the sentences, at the input of attention."""


def collect_run(
    run: LanguageModelRun, weights: Mapping[str, Path], out: Mapping[str, Path], threads: int
) -> None:
    """Write the verdicts of one run's checkpoints.

    `weights` has a file for each name of a checkpoint (initial, final), `out` one for each table (selectability,
    tokens). A run that diverged has no rows of its final checkpoint. Raises ValueError if a file is damaged or the
    weights are of another run.
    """
    torch.set_num_threads(threads)
    contexts = run.contexts()
    causal = run.settings.architecture == "gpt"
    scaled = scaled_sites(run.variant, run.norm) if causal else ()
    parts = []
    for name, model in run.restored(weights):
        part = collect(model, contexts, run.tokenizer, scaled, run.prefix, causal)
        columns = {"model": run.model, "variant": run.variant, "seed": run.seed, "checkpoint": name}
        parts.append([frame.assign(**columns) for frame in part])
    verdicts = Verdicts(*(pd.concat(frames) for frames in zip(*parts, strict=True)))
    streams = (*task_type(run.settings).streams, Stream.TEXT_SELECTION)
    metadata = provenance(run.identity, "cpu", *streams, torch=True)
    store.write(verdicts.tokens, "sentence_tokens", out["tokens"], metadata)
    store.write(verdicts.selectability, "key_selectability", out["selectability"], metadata)


def scaled_sites(variant: str, norm: str) -> tuple[str, ...]:
    """The sites where the keys of a GPT come out of a scaling, with nothing after it; one's own norm counts as none."""
    if variant == QUERY_KEY_VARIANT:
        return ("after_norm", "head")
    of_keys = SPLIT_VARIANTS[norm].queries_keys if norm in SPLIT_VARIANTS else norm
    built_in = VARIANTS.get(of_keys)
    return ("after_norm",) if built_in and built_in.scales and built_in.learns == "nothing" else ()


def collect(
    model: nn.Module,
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
    scaled: tuple[str, ...] = (),
    prefix: tuple[int, ...] = (),
    causal: bool = False,
) -> Verdicts:
    """Certified verdicts for the keys of each row of table `contexts`.

    `scaled` names the sites whose keys come out of a scaling, `prefix` holds tokens that stand before each text. With
    `causal` the keys of the heads are judged once more among the keys before them, as a causal query meets them. The
    frames lack the columns that name the model. Raises ValueError if a certificate does not prove its verdict.
    """
    model = model.double().eval()
    progress = Progress("key verdicts", len(contexts), "contexts")
    rows, tokens = [], []
    for done, context in enumerate(contexts.itertuples(), start=1):
        ids = torch.tensor([[*prefix, *context.tokens.tolist()]])
        for layer, keys in enumerate(model.keys(ids), start=1):
            for site, stack in _sites(keys, scaled):
                for among_earlier in (False, True) if causal and site == "head" else (False,):
                    certificates = certify_many(stack, causal=among_earlier, flat=True)
                    for i, summary in enumerate(summaries(certificates, stack)):
                        head = i if site.startswith("head") else None
                        where = (context.texts, context.context, layer, site, head)
                        rows.append((*where, among_earlier, stack.shape[-1], *summary))
                if site == "after_norm" and context.texts == "sentences":  # judged once, among all keys
                    verdicts = certificates.verdict[0]
                    tokens += [
                        (context.context, layer, position, int(token), verdict)
                        for position, (token, verdict) in enumerate(zip(ids[0], verdicts, strict=True))
                    ]
        progress(done)
    place = ["texts", "context", "layer", "site", "head", "causal", "dimensions"]
    table = pd.DataFrame(rows, columns=[*place, *Summary._fields])
    table["head"] = table["head"].astype("Int64")
    words = pd.DataFrame(tokens, columns=["context", "layer", "position", "token", "verdict"])
    words["token"] = words["token"].map(_spelling(tokenizer))
    return Verdicts(table, words)


def _sites(keys: LayerKeys, scaled: tuple[str, ...]) -> Iterator[tuple[str, Float[np.ndarray, "stack n d"]]]:
    at = {"before_norm": keys.before_norm, "after_norm": keys.after_norm, "head": keys.heads[0]}
    # The eps changed lengths only: scaling once more without an eps gives what scaling without an eps would have.
    at |= {f"{site}_exact": norms.scale(at[site]) for site in scaled}
    for site, stack in at.items():
        yield site, stack.numpy()


def _spelling(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A function from a token to its text; a part of a character shows as the replacement character."""
    return lambda token: tokenizer.decode([token]) if token < tokenizer.get_vocab_size() else "[CLS]"
