"""What a readable table consists of.

A readable table is a list of parts: paragraphs, grids and lists of sentences. Markdown and HTML are two renderings of
the parts; a CSV file holds the numbers behind them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

MISSING = "–"
"""What a cell without a value shows."""

SPLIT_CHARACTER = "□"
"""Stands for a character whose bytes belong to several tokens, none of which has a text of its own."""


class Column(NamedTuple):
    """Heading of one column of a grid, and whether its cells are aligned to the right, as numbers are."""

    name: str
    right: bool = False


@dataclass(frozen=True)
class Grid:
    """Rows of cells under headings."""

    columns: tuple[Column, ...]
    rows: list[list[str]]


class Span(NamedTuple):
    """A piece of a sentence, and whether readers see it marked."""

    text: str
    marked: bool


@dataclass(frozen=True)
class Sentences:
    """A list of sentences, each made of spans."""

    sentences: list[list[Span]]


Part = str | Grid | Sentences


class Readable(NamedTuple):
    """A table for people and for programs."""

    frame: pd.DataFrame
    """The numbers, in full precision."""
    parts: list[Part]
    """What people read; empty for a table that only programs need."""


def grid(rows: Iterable[Any], columns: Mapping[Column, Callable[[Any], str]]) -> Grid:
    """A grid with one row for each of `rows`; `columns` says what text a row has in each column."""
    return Grid(tuple(columns), [[text(row) for text in columns.values()] for row in rows])


def sentence(tokens: Iterable[tuple[str, bool]]) -> list[Span]:
    """The spans of a sentence, from the text of its tokens and whether each one is marked.

    A character that is split among tokens appears as U+FFFD in the text of each; neighbouring ones become a single
    `SPLIT_CHARACTER`, marked if one of them is. Neighbouring marked characters share a span, spaces are never marked.

    >>> sentence([("The", False), (" w", False), ("ire", True), ("\\ufffd", False), ("\\ufffd", True)])
    [Span(text='The w', marked=False), Span(text='ire□', marked=True)]
    """
    characters = [(character, marked) for text, marked in tokens for character in text]
    whole: list[tuple[str, bool]] = []
    for split, group in groupby(characters, lambda pair: pair[0] == "\N{REPLACEMENT CHARACTER}"):
        parts = list(group)
        whole += [(SPLIT_CHARACTER, any(marked for _, marked in parts))] if split else parts
    shown = [(" ", False) if character.isspace() else (character, marked) for character, marked in whole]
    spans = [
        Span("".join(character for character, _ in group), marked)
        for marked, group in groupby(shown, lambda pair: pair[1])
    ]
    return [span for span in spans if span.text]


def token_text(token: str) -> str:
    """A token with its spaces and line breaks visible, and one sign for a character of which it is a part.

    >>> token_text(" al"), token_text("\\n"), token_text("\\ufffd\\ufffd")
    ('␣al', '⏎', '□')
    """
    pieces = groupby(token, lambda character: character == "\N{REPLACEMENT CHARACTER}")
    shown = "".join(SPLIT_CHARACTER if split else "".join(group) for split, group in pieces)
    return shown.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
