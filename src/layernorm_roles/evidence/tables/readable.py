"""Readable tables: their parts, how they are made from Parquet tables, and how they are written as files and HTML."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import pandas as pd

from layernorm_roles import files
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.evidence.tables.typography import MISSING
from layernorm_roles.shown import Table

SPLIT_CHARACTER = "□"
"""The sign for a character whose bytes belong to several tokens."""

Part = str | list[str] | pd.DataFrame
"""A piece of a readable table: a paragraph, a list of sentences, or a table of texts that `grid` makes."""


class Readable(NamedTuple):
    """A table of results in two forms: `parts`, which people read, and `frame`, which programs read."""

    frame: pd.DataFrame
    """The table's rows for programs, in full precision, as they are written to a CSV file."""
    parts: list[Part]
    """What readers see of the table: paragraphs, lists of sentences, and tables of texts."""


Cell = str | Callable[[Any], str]
"""How a cell is made from a row: by a function, or by a format such as "{.steps:,}" or "{0.low} to {0.high}"."""

NORM = {"norm": lambda row: label(row.variant)}
"""A column for `grid`: the variant of the norm in each row, as the legends of figures name it."""


def grid(rows: Iterable[Any] | pd.DataFrame, cells: Mapping[str, Cell], texts: int = 1) -> pd.DataFrame:
    """Return a table of texts with a row for each of `rows` and a column for each entry of `cells`.

    The keys of `cells` name the columns. Each value makes a cell from a row: it is a function, or a format such as
    "{.steps:,}". The first `texts` columns, which hold words, are aligned to the left, the others to the right.
    """
    makers = [cell.format if isinstance(cell, str) else cell for cell in cells.values()]
    rows = rows.itertuples() if isinstance(rows, pd.DataFrame) else rows
    made = pd.DataFrame([[maker(row) for maker in makers] for row in rows], columns=[*cells], dtype=object)
    made.attrs["texts"] = texts
    return made


LayeredRow = tuple[Sequence[str], Mapping[int, str], Sequence[str]]
"""A row of a table with a column for each layer: its first cells, cells by layer number, and last cells."""


def layered(
    before: Sequence[str], rows: Sequence[LayeredRow], after: Sequence[str], texts: int
) -> pd.DataFrame:
    """Return a table of texts with a column for each layer, between the columns named in `before` and in `after`.

    Each row is a triple of its first cells, its cells by layer number, and its last cells. A layer that a row lacks
    shows a dash. The first `texts` columns, which hold words, are aligned to the left, the others to the right.
    """
    layers = sorted(set().union(*(cells for _, cells, _ in rows)))
    filled = [[*first, *(cells.get(n, MISSING) for n in layers), *last] for first, cells, last in rows]
    columns = [*before, *(f"layer {layer}" for layer in layers), *after]
    return grid(filled, {name: itemgetter(place) for place, name in enumerate(columns)}, texts)


def ordered(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return `frame` sorted by `columns`; the values of a column variant are in the order of the legends.

    `frame` needs a column variant. Rows that are equal in `columns` keep their order; the index is numbered anew.
    """
    order = legend_order(frame.variant)
    return frame.sort_values(
        [*columns],
        key=lambda column: column.map(order.index) if column.name == "variant" else column,
        kind="stable",
        ignore_index=True,
    )


def make(table: Table, frames: Mapping[str, pd.DataFrame]) -> Readable:
    """Return the readable table that `table`, an entry of the file shown.yaml, describes.

    `frames` has the data frames of Parquet tables by their names.
    """
    function = resolve_name(f"layernorm_roles.evidence.tables.{table.group}:{table.name}")
    made = function(*(frames[name] for name in table.inputs))
    if made.frame.empty and table.none:
        return made._replace(parts=[table.none])
    return made._replace(parts=[*made.parts, table.note]) if table.note else made


def write(readable: Readable, *paths: str | Path) -> None:
    """Write a readable table to each of `paths`, as CSV if the name ends in .csv, otherwise as Markdown."""
    for path in map(Path, paths):
        text = readable.frame.to_csv(index=False) if path.suffix == ".csv" else markdown(readable.parts)
        files.write_text(path, text)


def markdown(parts: Iterable[Part]) -> str:
    """Return the parts of a readable table as one text in GitHub's Markdown, separated by empty lines."""
    return "\n".join(_markdown(part) for part in parts)


def _markdown(part: Part) -> str:
    if isinstance(part, str):
        return _block(part) + "\n"
    if isinstance(part, list):
        return "".join(f"- {_block(sentence)}\n" for sentence in part)
    texts = part.attrs["texts"]
    align = ["left"] * texts + ["right"] * (part.shape[1] - texts) if len(part) else None
    shown = part.map(escape).set_axis(map(escape, part.columns), axis=1)
    return shown.to_markdown(index=False, colalign=align, disable_numparse=True) + "\n"


def html(grid: pd.DataFrame) -> str:
    """Return a table of texts, made by the function `grid`, as HTML.

    Its CSS classes are texts-N, where N columns hold words, and dense if it has more than eight columns.
    """
    classes = [f"texts-{grid.attrs['texts']}", *(["dense"] if grid.shape[1] > 8 else [])]
    return grid.to_html(index=False, border=0, classes=classes, justify="unset")


def escape(text: str) -> str:
    """Return `text` escaped, so that Markdown shows it unchanged; line breaks become spaces.

    >>> print(escape("a_b *c* | <d> [1, 2]"))
    a_b \\*c\\* \\| \\<d> [1, 2]
    """
    text = re.sub(r"([\\`*|<~])", r"\\\1", " ".join(text.splitlines()))
    text = re.sub(r"\](?=[\[(:])", r"\\]", text)  # brackets alone are no link
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word an underscore is plain text
    return re.sub(r"&(?=#?\w+;)", r"\\&", text)


def _block(text: str) -> str:
    """Return `text` escaped for the start of a block of Markdown, where it becomes no heading, list or quotation."""
    text = re.sub(r"^([#>+=\[-])", r"\\\1", escape(text).strip())
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", text)


def sentence(tokens: Iterable[tuple[str, bool]]) -> str:
    """Return a sentence as text, with its marked tokens in the brackets ⟦ ⟧.

    `tokens` are pairs of a text and whether it is marked. Marked neighbours share brackets; spaces are never marked.
    U+FFFD, a part of a character, becomes □ (SPLIT_CHARACTER); neighbours become a single □, marked if any of them is.

    >>> sentence([("The", False), (" w", False), ("ire", True), ("\\ufffd", False), ("\\ufffd", True)])
    'The w⟦ire□⟧'
    """
    characters = [(character, marked) for text, marked in tokens for character in text]
    whole: list[tuple[str, bool]] = []
    for split, group in groupby(characters, lambda pair: pair[0] == "\N{REPLACEMENT CHARACTER}"):
        parts = list(group)
        whole += [(SPLIT_CHARACTER, any(marked for _, marked in parts))] if split else parts
    shown = [(" ", False) if character.isspace() else (character, marked) for character, marked in whole]
    pieces = ""
    for marked, group in groupby(shown, lambda pair: pair[1]):
        text = "".join(character for character, _ in group)
        pieces += f"⟦{text}⟧" if marked else text
    return pieces


def token_text(token: str) -> str:
    """Return a token with its spaces, tabs and line breaks made visible, and with □ for a part of a character.

    >>> token_text(" al"), token_text("\\n"), token_text("\\ufffd\\ufffd")
    ('␣al', '⏎', '□')
    """
    shown = re.sub("\N{REPLACEMENT CHARACTER}+", SPLIT_CHARACTER, token)
    return shown.translate(str.maketrans(" \n\t", "␣⏎⇥"))
