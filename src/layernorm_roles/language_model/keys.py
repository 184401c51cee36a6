"""Which keys can attention select? Every layer of a trained model, at every place where the question makes sense.

The network is run in float64 with its float32 weights: normalised keys then lie on their sphere to 16 digits, and
rounding does not decide who is inside.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import nn

from layernorm_roles import norms
from layernorm_roles.job import Progress
from layernorm_roles.language_model.model import Keys
from layernorm_roles.selectability import Certificates, certify_many

SITES = ("before_norm", "after_norm", "head", "after_norm_exact", "head_exact")
"""The residual stream; the attention input; a head's keys as it uses them; and the last two with eps = 0, where they
come out of a scaling: what the scaling itself does, and what its eps takes away."""


class Verdicts(NamedTuple):
    selectability: pd.DataFrame  # table key_selectability
    tokens: pd.DataFrame  # table sentence_tokens


def collect(
    model: nn.Module,
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
    scaled: tuple[str, ...] = (),
    prefix: tuple[int, ...] = (),
) -> Verdicts:
    """Certified verdicts for the keys of each row of `contexts` (table `contexts`).

    `scaled` are the sites whose keys come out of a scaling, `prefix` are tokens put before each text. The frames lack
    the columns that say which model this is.
    """
    model = model.double().eval()
    progress = Progress("key verdicts", len(contexts), "contexts")
    rows, tokens = [], []
    for done, context in enumerate(contexts.itertuples(), start=1):
        ids = torch.tensor([[*prefix, *context.tokens.tolist()]])
        for layer, keys in enumerate(model.keys(ids), start=1):
            for site, stack in _sites(keys, scaled):
                certificates = certify_many(stack)
                for i, row in enumerate(_summaries(certificates)):
                    head = i if site.startswith("head") else None
                    rows.append((context.texts, context.context, layer, site, head, *row))
                if site == "after_norm" and context.texts == "sentences":
                    verdicts = certificates.verdict[0]
                    tokens += [
                        (context.context, layer, position, int(token), verdict)
                        for position, (token, verdict) in enumerate(zip(ids[0], verdicts, strict=True))
                    ]
        progress(done)
    table = pd.DataFrame(rows, columns=["texts", "context", "layer", "site", "head", *_SUMMARY])
    table["head"] = table["head"].astype("Int64")
    words = pd.DataFrame(tokens, columns=["context", "layer", "position", "token", "verdict"])
    words["token"] = words["token"].map(_spelling(tokenizer))
    return Verdicts(table, words)


def _sites(keys: Keys, scaled: tuple[str, ...]) -> Iterator[tuple[str, Float[np.ndarray, "stack n d"]]]:
    at = {"before_norm": keys.before_norm, "after_norm": keys.after_norm, "head": keys.heads[0]}
    # The eps changed lengths only, so scaling once more, without one, is scaling without one.
    at |= {f"{site}_exact": norms.scale(at[site]) for site in scaled}
    for site, stack in at.items():
        yield site, stack.numpy()


_SUMMARY = ["n_keys", "n_unselectable", "n_borderline", "min_margin", "max_residual"]


def _summaries(certificates: Certificates) -> Iterator[tuple]:
    for verdict, margin, residual in zip(
        certificates.verdict, certificates.margin, certificates.residual, strict=True
    ):
        selectable, unselectable = verdict == "selectable", verdict == "unselectable"
        yield (
            len(verdict),
            int(unselectable.sum()),
            int((verdict == "borderline").sum()),
            _extreme(np.min, margin[selectable]),
            _extreme(np.max, residual[unselectable & np.isfinite(residual)]),
        )


def _extreme(pick: Callable, values: np.ndarray) -> float | None:
    return float(pick(values)) if len(values) else None


def _spelling(tokenizer: Tokenizer) -> Callable[[int], str]:
    """A token's text; one that is a part of a character shows as the replacement character."""
    return lambda token: tokenizer.decode([token]) if token < tokenizer.get_vocab_size() else "[CLS]"


def refuse_misfits(contexts: pd.DataFrame, longest: int, vocabulary: int) -> None:
    """ValueError if a row of `contexts` has more than `longest` tokens or one beyond the vocabulary."""
    for context in contexts.itertuples():
        where = f"context {context.context} of the {context.texts} texts"
        if len(context.tokens) > longest:
            raise ValueError(f"{where} has {len(context.tokens)} tokens; the model reads at most {longest}")
        if max(context.tokens) >= vocabulary:
            raise ValueError(f"{where} has token {max(context.tokens)}; the model knows {vocabulary}")
