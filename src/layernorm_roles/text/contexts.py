"""Contexts: the texts that a trained model reads when it is tested which of its attention keys a query can select.

They are long windows of documents, and single sentences, both from documents that no model was trained on: held-out
documents of the corpus, or another source that the configuration names.
"""

import re
from collections.abc import Iterator, Sequence

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.text import Contexts
from layernorm_roles.text.token_streams import encode

KINDS = ("long", "sentences")
"""The kinds of texts on which models are tested: windows of documents (the paper's Tables 1, 2), sentences (3, 4)."""


Candidates = Sequence[tuple[int, list[int]]]
"""Texts from which contexts are chosen, each as (number of the document that it comes from, its token ids)."""


def windows(tokens: list[int], shortest: int, longest: int) -> Iterator[list[int]]:
    """Cut token ids into consecutive windows of `longest` tokens."""
    for start in range(0, len(tokens), longest):
        window = tokens[start : start + longest]
        if len(window) >= shortest:
            yield window


_STOPS = ".!?।॥؟۔։።။។"
"""The characters that end sentences in scripts in which a space follows them."""
_GAP = re.compile(rf'(?<=[{_STOPS}])\s+(?=["“„«(¿¡]?(\w))')
"""Matches the space after the end of a sentence; group 1 is the first letter or digit that follows."""
_WIDE = re.compile("([。！？｡]+[」』”’）]*)")
"""Matches the end of a Chinese or Japanese sentence, after which no space stands, with closing quotation marks."""
_END = re.compile(rf"([{_STOPS}]|{_WIDE.pattern})$")


def sentences(text: str) -> list[str]:
    """Split `text` into sentences: at line ends, and after full stops, question marks and exclamation marks.

    A mark ends a sentence if a space and a capital follow; in a text or script without capitals, any letter will do.
    After a Chinese or Japanese mark, nothing need follow. Pieces that do not end in a mark, such as headings, are left
    out; if no piece does, all are kept.
    """
    without_capitals = text == text.lower()

    def cut(gap: re.Match) -> str:
        begins = gap[1].isalpha() and (without_capitals or not gap[1].islower())
        return "\n" if begins else gap[0]

    parts = _WIDE.sub(r"\1\n", _GAP.sub(cut, text)).splitlines()
    parts = [part.strip() for part in parts if part.strip()]
    return [part for part in parts if _END.search(part)] or parts


def candidates(kind: str, settings: Contexts, texts: Sequence[str], tokenizer: Tokenizer) -> Candidates:
    """The windows or sentences of `texts` whose number of tokens `settings` allow, in the order of `texts`."""
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
    """Choose `number` of the candidates `found` at random, and return them as rows of the table `contexts`."""
    order = generator(Stream.TEXT_SELECTION, seed, KINDS.index(kind)).permutation(len(found))
    rows = [(kind, context, *found[i]) for context, i in enumerate(sorted(order[:number]))]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
