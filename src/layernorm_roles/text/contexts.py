"""The held-out contexts whose keys are tested: long windows of documents, and single sentences.

Both come from documents that no model was trained on: the held-out documents of the corpus, or a source of their own.
"""

import re
from collections.abc import Iterator, Sequence

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.text import Contexts
from layernorm_roles.text.token_streams import encode

KINDS = ("long", "sentences")
"""long: random windows, for Tables 1 and 2; sentences: random sentences, for Tables 3 and 4."""


def windows(tokens: list[int], shortest: int, longest: int) -> Iterator[list[int]]:
    """Disjoint windows of `longest` tokens from the start; the last may be shorter, down to `shortest`."""
    for start in range(0, len(tokens), longest):
        window = tokens[start : start + longest]
        if len(window) >= shortest:
            yield window


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text`: its lines, cut after '.', '!' or '?' before a capital or a quotation mark.

    Headings and list items, which do not end like a sentence, are left out.
    """
    for line in text.splitlines():
        for sentence in re.split(r'(?<=[.!?])\s+(?=["“(]?[A-Z])', line.strip()):
            if sentence.endswith((".", "!", "?")):
                yield sentence


def choose(
    kind: str, settings: Contexts, texts: Sequence[str], tokenizer: Tokenizer, seed: int
) -> pd.DataFrame:
    """The rows of table `contexts` of one of KINDS, in the order of `texts`: held-out documents or a source's.

    A source of sentences has one text a sentence, as SST-2. `seed` is that of the choice. Raises ValueError if there
    are fewer windows, or sentences of the right length, than the settings want.
    """
    if kind == "sentences" and not settings.source:
        pairs = [(document, sentence) for document, text in enumerate(texts) for sentence in sentences(text)]
    else:
        pairs = list(enumerate(texts))
    shortest, longest, number = settings.shortest, settings.longest, settings.contexts
    candidates: list[tuple[int, list[int]]] = []
    for (document, _), tokens in zip(pairs, encode([text for _, text in pairs], tokenizer), strict=True):
        if kind == "long":
            candidates += ((document, window) for window in windows(tokens, shortest, longest))
        elif shortest <= len(tokens) <= longest:
            candidates.append((document, tokens))
    if len(candidates) < number:
        whose, more = "the held-out texts give", "a larger corpus or split.held_out"
        if source := settings.source:
            whose, more = f"the source {source.dataset or source.paths} gives", "other lengths, or joined_by"
        raise ValueError(
            f"{kind}.contexts = {number}: {whose} {len(candidates)} of {shortest} to {longest} tokens; "
            f"expected at most that many, or {more}"
        )
    order = generator(Stream.TEXT_SELECTION, seed, KINDS.index(kind)).permutation(len(candidates))
    rows = [(kind, context, *candidates[i]) for context, i in enumerate(sorted(order[:number]))]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
