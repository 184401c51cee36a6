"""What a readable table consists of.

A readable table is a list of parts: paragraphs, grids and lists of sentences. Markdown and HTML are two renderings of
the parts; a CSV file holds the numbers behind them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.legends import label
from layernorm_roles.evidence.tables.typography import MISSING

SPLIT_CHARACTER = "□"
"""Stands for a character whose bytes belong to several tokens, none of which has a text of its own."""


class Column(NamedTuple):
    """Heading of one column of a grid, and whether its cells are aligned to the right, as numbers are."""

    name: str
    right: bool = False


class Grid(NamedTuple):
    """Rows of cells under headings."""

    columns: tuple[Column, ...]
    rows: list[list[str]]


class Span(NamedTuple):
    """A piece of a sentence, and whether readers see it marked."""

    text: str
    marked: bool


class Sentences(NamedTuple):
    """A list of sentences, each made of spans."""

    sentences: list[list[Span]]


Part = str | Grid | Sentences


class Readable(NamedTuple):
    """A table for people and for programs."""

    frame: pd.DataFrame
    """The numbers, in full precision."""
    parts: list[Part]
    """What people read, above the note of tables.yaml; empty where there is nothing to show."""


Cell = str | Callable[[Any], str]
"""What a row has in a column: a function of the row, or its format, as "{.steps:,}" or "{0.low} to {0.high}"."""


def left(name: str, cell: Cell) -> tuple[Column, Cell]:
    """A column of texts under the heading `name`."""
    return Column(name), cell


def right(name: str, cell: Cell) -> tuple[Column, Cell]:
    """A column of numbers under the heading `name`."""
    return Column(name, right=True), cell


NORM = left("norm", lambda row: label(row.variant))
"""The column of the variants of the norm, as the legends of figures name them."""


def grid(rows: Iterable[Any] | pd.DataFrame, *columns: tuple[Column, Cell]) -> Grid:
    """A grid with one row for each of `rows`, in columns that `left`, `right` and NORM make."""
    cells = [cell.format if isinstance(cell, str) else cell for _, cell in columns]
    rows = rows.itertuples() if isinstance(rows, pd.DataFrame) else rows
    return Grid(tuple(column for column, _ in columns), [[cell(row) for cell in cells] for row in rows])


def ordered(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The rows sorted by `columns`, variants in the order of the legends; rows that are equal there stay in place."""
    order = legend_order(frame.variant)
    return frame.sort_values(
        [*columns],
        key=lambda column: column.map(order.index) if column.name == "variant" else column,
        kind="stable",
        ignore_index=True,
    )


LayeredRow = tuple[Sequence[str], Mapping[int, str], Sequence[str]]
"""A row for `layered`: the cells of the first columns, the cells of layers by layer number, the last columns' cells."""


def layered(before: Sequence[Column], rows: Sequence[LayeredRow], after: Sequence[Column]) -> Grid:
    """A grid with a column for each layer, in which a row may lack some."""
    layers = sorted(set().union(*(cells for _, cells, _ in rows)))
    columns = *before, *(Column(f"layer {layer}", right=True) for layer in layers), *after
    return Grid(
        columns,
        [[*first, *(cells.get(layer, MISSING) for layer in layers), *last] for first, cells, last in rows],
    )


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
