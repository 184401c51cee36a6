"""The held-out contexts whose keys are tested: long windows of documents, and single sentences.

Both come from documents that no model was trained on: the held-out documents of the corpus, or a source of their own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles import random_streams
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.text import Contexts
from layernorm_roles.text.token_streams import encode


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


def different(texts: Iterable[str]) -> list[str]:
    """`texts` without those that came before: a dataset of questions repeats the paragraph of each question."""
    return list(dict.fromkeys(texts))


def long_contexts(settings: Contexts, texts: Sequence[str], tokenizer: Tokenizer, seed: int) -> pd.DataFrame:
    """The rows of table `contexts` for Tables 1 and 2: random windows of `texts`, held-out documents or a source's.

    `seed` is that of the choice. Raises ValueError if there are fewer windows than the settings want.
    """
    candidates = [
        (document, window)
        for document, tokens in enumerate(encode(texts, tokenizer))
        for window in windows(tokens, settings.shortest, settings.longest)
    ]
    return _choose("long", candidates, settings, seed)


def sentence_contexts(
    settings: Contexts, texts: Sequence[str], tokenizer: Tokenizer, seed: int
) -> pd.DataFrame:
    """The rows of table `contexts` for Tables 3 and 4: random sentences of `texts`, held-out documents or a source's.

    `seed` is that of the choice. A source of sentences has one text a sentence, as SST-2. Raises ValueError if there
    are fewer sentences of the right length than the settings want.
    """
    if settings.source:
        texts = list(enumerate(texts))
    else:
        texts = [(document, s) for document, text in enumerate(texts) for s in sentences(text)]
    encoded = zip(texts, encode([s for _, s in texts], tokenizer), strict=True)
    candidates = [
        (document, tokens)
        for (document, _), tokens in encoded
        if settings.shortest <= len(tokens) <= settings.longest
    ]
    return _choose("sentences", candidates, settings, seed)


def _choose(
    texts: str, candidates: list[tuple[int, list[int]]], settings: Contexts, seed: int
) -> pd.DataFrame:
    """A random choice of the candidates, each a document's number and token ids, in the order of the documents."""
    number = settings.contexts
    if len(candidates) < number:
        whose, more = (
            (
                f"the source {settings.source.dataset or settings.source.paths} gives",
                "other lengths, or joined_by",
            )
            if settings.source
            else ("the held-out texts give", "a larger corpus or split.held_out")
        )
        raise ValueError(
            f"{texts}.contexts = {number}: {whose} {len(candidates)} of {settings.shortest} "
            f"to {settings.longest} tokens; expected at most that many, or {more}"
        )
    stream = random_streams.generator(Stream.TEXT_SELECTION, seed, ("long", "sentences").index(texts))
    order = stream.permutation(len(candidates))
    rows = [(texts, context, *candidates[i]) for context, i in enumerate(sorted(order[:number]))]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
