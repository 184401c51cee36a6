"""Readable tables: their parts, how they are made from Parquet tables, and how pandas writes them as files and HTML."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from layernorm_roles import files
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.evidence.tables.typography import MISSING
from layernorm_roles.shown import Table

SPLIT_CHARACTER = "□"
"""The sign that stands for a character whose bytes belong to several tokens."""

Part = str | list[str] | pd.DataFrame
"""A piece of a readable table: a paragraph, a list of sentences, or a grid of texts that `grid` makes."""


class Readable(NamedTuple):
    """A table of results for people, as `parts`, and for programs, as `frame`."""

    frame: pd.DataFrame
    """The table's rows for programs, in full precision, as they are written to a CSV file."""
    parts: list[Part]
    """What readers see of the table: paragraphs, lists of sentences, and grids of texts."""


Cell = str | Callable[[Any], str]
"""How a cell is made from a row: by a function, or by a format such as "{.steps:,}" or "{0.low} to {0.high}"."""

NORM = {"norm": lambda row: label(row.variant)}
"""A column for `grid`: the variant of the norm in each row, as the legends of figures name it."""


def grid(rows: Iterable[Any] | pd.DataFrame, cells: Mapping[str, Cell], texts: int = 1) -> pd.DataFrame:
    """Return a table of texts with a row for each of `rows` and a column for each of `cells`, which name and make it.

    The first `texts` columns are aligned to the left, the others, which have numbers, to the right.
    """
    makers = [cell.format if isinstance(cell, str) else cell for cell in cells.values()]
    rows = rows.itertuples() if isinstance(rows, pd.DataFrame) else rows
    return _texts([[maker(row) for maker in makers] for row in rows], [*cells], texts)


def _texts(rows: Sequence[Sequence[str]], columns: Sequence[str], texts: int) -> pd.DataFrame:
    made = pd.DataFrame(rows, columns=columns, dtype=object)
    made.attrs["texts"] = texts
    return made


LayeredRow = tuple[Sequence[str], Mapping[int, str], Sequence[str]]
"""A row of a table with a column for each layer: its first cells, cells by layer number, and last cells."""


def layered(
    before: Sequence[str], rows: Sequence[LayeredRow], after: Sequence[str], texts: int
) -> pd.DataFrame:
    """A grid with a column for each layer between the columns `before` and `after`; a row may lack some layers."""
    layers = sorted(set().union(*(cells for _, cells, _ in rows)))
    columns = [*before, *(f"layer {layer}" for layer in layers), *after]
    filled = [[*first, *(cells.get(n, MISSING) for n in layers), *last] for first, cells, last in rows]
    return _texts(filled, columns, texts)


def ordered(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return `frame` sorted by `columns`, variants in the order of the legends; equal rows keep their order."""
    order = legend_order(frame.variant)
    return frame.sort_values(
        [*columns],
        key=lambda column: column.map(order.index) if column.name == "variant" else column,
        kind="stable",
        ignore_index=True,
    )


def make(table: Table, frames: Mapping[str, pd.DataFrame]) -> Readable:
    """Make a readable table that shown.yaml lists from data frames, given by the names of their Parquet tables."""
    module = import_module(f"layernorm_roles.evidence.tables.{table.group}")
    made = getattr(module, table.name)(*(frames[name] for name in table.inputs))
    if made.frame.empty and table.none:
        return made._replace(parts=[table.none])
    return made._replace(parts=[*made.parts, *([table.note] if table.note else [])])


def write(readable: Readable, *paths: str | Path) -> None:
    """Write a readable table to each of `paths`, as CSV or Markdown by the ending of the name (.csv or .md)."""
    for path in map(Path, paths):
        text = readable.frame.to_csv(index=False) if path.suffix == ".csv" else markdown(readable.parts)
        files.write_text(path, text)


def markdown(parts: Iterable[Part]) -> str:
    """The text of the parts in the Markdown of GitHub, with an empty line between two of them."""
    return "\n".join(_markdown(part) for part in parts)


def _markdown(part: Part) -> str:
    if isinstance(part, str):
        return _block(part) + "\n"
    if isinstance(part, list):
        return "".join(f"- {_block(sentence)}\n" for sentence in part)
    texts = part.attrs["texts"]
    align = ["left"] * texts + ["right"] * (part.shape[1] - texts)
    shown = part.map(escape).set_axis(map(escape, part.columns), axis=1)
    if shown.empty:
        align = None
    return shown.to_markdown(index=False, colalign=align, disable_numparse=True) + "\n"


def html(grid: pd.DataFrame) -> str:
    """The HTML of a grid; its classes say how many columns have texts, and whether there are many columns."""
    classes = [f"texts-{grid.attrs['texts']}", *(["dense"] if grid.shape[1] > 8 else [])]
    return grid.to_html(index=False, border=0, classes=classes, justify="unset")


def escape(text: str) -> str:
    """`text` so that Markdown shows it as it is; line breaks become spaces.

    >>> print(escape("a_b *c* | <d> [1, 2]"))
    a_b \\*c\\* \\| \\<d> [1, 2]
    """
    text = re.sub(r"([\\`*|<~])", r"\\\1", " ".join(text.splitlines()))
    text = re.sub(r"\](?=[\[(:])", r"\\]", text)  # brackets alone are no link
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word an underscore is plain text
    return re.sub(r"&(?=#?\w+;)", r"\\&", text)


def _block(text: str) -> str:
    """Text escaped for the start of a block, where it must not become a heading, a list or a quotation."""
    text = re.sub(r"^([#>+=\[-])", r"\\\1", escape(text).strip())
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", text)


def sentence(tokens: Iterable[tuple[str, bool]]) -> str:
    """A sentence from the text of its tokens and whether each one is marked; marked characters stand in ⟦ ⟧.

    A character that is split among tokens appears as U+FFFD in the text of each; neighbouring ones become a single
    `SPLIT_CHARACTER`, marked if one of them is. Neighbouring marked characters share brackets, spaces are never marked.

    >>> sentence([("The", False), (" w", False), ("ire", True), ("\\ufffd", False), ("\\ufffd", True)])
    'The w⟦ire□⟧'
    """
    characters = [(character, marked) for text, marked in tokens for character in text]
    whole: list[tuple[str, bool]] = []
    for split, group in groupby(characters, lambda pair: pair[0] == "\N{REPLACEMENT CHARACTER}"):
        parts = list(group)
        whole += [(SPLIT_CHARACTER, any(marked for _, marked in parts))] if split else parts
    shown = [(" ", False) if character.isspace() else (character, marked) for character, marked in whole]
    pieces = [
        (marked, "".join(character for character, _ in group))
        for marked, group in groupby(shown, lambda pair: pair[1])
    ]
    return "".join(f"⟦{text}⟧" if marked else text for marked, text in pieces)


def token_text(token: str) -> str:
    """A token with its spaces and line breaks visible, and one sign for a character of which it is a part.

    >>> token_text(" al"), token_text("\\n"), token_text("\\ufffd\\ufffd")
    ('␣al', '⏎', '□')
    """
    pieces = groupby(token, lambda character: character == "\N{REPLACEMENT CHARACTER}")
    shown = "".join(SPLIT_CHARACTER if split else "".join(group) for split, group in pieces)
    return shown.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥")
