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


Candidates = Sequence[tuple[int, list[int]]]
"""Texts that may be contexts: the number of the document, or of the text of a source, and the tokens."""


def windows(tokens: list[int], shortest: int, longest: int) -> Iterator[list[int]]:
    """Disjoint windows of `longest` tokens from the start; the last may be shorter, down to `shortest`."""
    for start in range(0, len(tokens), longest):
        window = tokens[start : start + longest]
        if len(window) >= shortest:
            yield window


_STOPS = ".!?।॥؟۔։።။។"
"""Ends of sentences of many scripts, after which a space stands."""
_GAP = re.compile(rf'(?<=[{_STOPS}])\s+(?=["“„«(¿¡]?(\w))')
"""The space after a full stop of some script, or a question or exclamation mark; the group is what comes first then."""
_WIDE = re.compile("([。！？｡]+[」』”’）]*)")
"""Full stops and other ends of Chinese and Japanese sentences, after which no space stands."""
_END = re.compile(rf"([{_STOPS}]|{_WIDE.pattern})$")


def sentences(text: str) -> list[str]:
    """The sentences of `text`: its lines, cut after full stops, and question and exclamation marks, of many scripts.

    A line is cut where a space and then a capital follows, or a letter of a script without capitals, or, in a text
    without capitals, any letter; after marks of Chinese and Japanese everywhere. Lines that do not end like a sentence,
    such as headings and list items, are left out, unless no line does: then each is a sentence.
    """
    without_capitals = text == text.lower()

    def cut(gap: re.Match) -> str:
        begins = gap[1].isalpha() and (without_capitals or not gap[1].islower())
        return "\n" if begins else gap[0]

    parts = _WIDE.sub(r"\1\n", _GAP.sub(cut, text)).splitlines()
    parts = [part.strip() for part in parts if part.strip()]
    return [part for part in parts if _END.search(part)] or parts


def candidates(kind: str, settings: Contexts, texts: Sequence[str], tokenizer: Tokenizer) -> Candidates:
    """The texts of one of KINDS that have the lengths that `settings` want, in the order of `texts`.

    `texts` are held-out documents, or those of a source, of which each is a sentence, as in SST-2.
    """
    if kind == "sentences" and not settings.source:
        pairs = [(document, sentence) for document, text in enumerate(texts) for sentence in sentences(text)]
    else:
        pairs = list(enumerate(texts))
    shortest, longest = settings.shortest, settings.longest
    found: list[tuple[int, list[int]]] = []
    for (document, _), tokens in zip(pairs, encode([text for _, text in pairs], tokenizer), strict=True):
        if kind == "long":
            found += ((document, window) for window in windows(tokens, shortest, longest))
        elif shortest <= len(tokens) <= longest:
            found.append((document, tokens))
    return found


def choose(kind: str, found: Candidates, number: int, seed: int) -> pd.DataFrame:
    """The rows of table `contexts` of one of KINDS: `number` of the candidates `found`, at random, in their order."""
    order = generator(Stream.TEXT_SELECTION, seed, KINDS.index(kind)).permutation(len(found))
    rows = [(kind, context, *found[i]) for context, i in enumerate(sorted(order[:number]))]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
