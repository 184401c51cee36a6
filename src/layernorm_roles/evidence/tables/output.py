"""Readable tables as files: Markdown in the dialect of GitHub, and CSV."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from layernorm_roles import files, store
from layernorm_roles.evidence.tables import registry
from layernorm_roles.evidence.tables.structure import Grid, Part, Readable, Span


def write_tables(inputs: Mapping[str, str | Path], outputs: Iterable[str | Path]) -> None:
    """Write the files `outputs` of readable tables, which the names of the files name.

    `inputs` are the Parquet files that the tables are made from, by the names of the Parquet tables.
    """
    frames = {name: store.read(path, name) for name, path in inputs.items()}
    paths = [Path(path) for path in outputs]
    for name in dict.fromkeys(path.stem for path in paths):
        readable = registry.make(registry.TABLES[name], frames)
        write(readable, *(path for path in paths if path.stem == name))


def write(readable: Readable, *paths: str | Path) -> None:
    """Write a readable table to each of `paths`, as CSV or Markdown by the ending of the name (.csv or .md)."""
    for path in map(Path, paths):
        text = readable.frame.to_csv(index=False) if path.suffix == ".csv" else markdown(readable.parts)
        files.write_text(path, text)


def markdown(parts: Iterable[Part]) -> str:
    """The Markdown text of the parts, with an empty line between two of them."""
    return "\n".join(_part(part) for part in parts)


def escape(text: str) -> str:
    """`text` so that Markdown shows it as it is; line breaks become spaces.

    >>> print(escape("a_b *c* | <d> [1, 2]"))
    a_b \\*c\\* \\| \\<d> [1, 2]
    """
    text = re.sub(r"([\\`*|<~])", r"\\\1", " ".join(text.splitlines()))
    text = re.sub(r"\](?=[\[(:])", r"\\]", text)  # brackets alone are no link
    text = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", text)  # inside a word an underscore is plain text
    return re.sub(r"&(?=#?\w+;)", r"\\&", text)


def _part(part: Part) -> str:
    if isinstance(part, str):
        return _block(escape(part)) + "\n"
    if isinstance(part, Grid):
        return _grid(part)
    return "".join(f"- {_block(_sentence(spans))}\n" for spans in part.sentences)


def _block(text: str) -> str:
    """Escaped text at the start of a block, where it must not become a heading, a list or a quotation."""
    text = re.sub(r"^([#>+=\[-])", r"\\\1", text.strip())
    return re.sub(r"^(\d+)([.)])", r"\1\\\2", text)


def _grid(grid: Grid) -> str:
    rule = ["---:" if column.right else "---" for column in grid.columns]
    rows = [[escape(cell) for cell in row] for row in ([column.name for column in grid.columns], *grid.rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def _sentence(spans: Iterable[Span]) -> str:
    return "".join(_bold(span.text) if span.marked else escape(span.text) for span in spans)


def _bold(text: str) -> str:
    # Asterisks inside a word do not start emphasis next to punctuation, whatever its kind.
    mark = ("**", "**") if text[0].isalnum() and text[-1].isalnum() else ("<b>", "</b>")
    return mark[0] + escape(text) + mark[1]
