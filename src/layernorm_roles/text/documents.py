"""Reads the documents of a source that config.yaml names as plain text."""

import bz2
import re
from collections.abc import Iterator
from importlib import metadata
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq

from layernorm_roles.settings.text import Source
from layernorm_roles.text import downloads

SAMPLE = "gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
"""The path, in the installed package gensim, of an excerpt of a Wikipedia dump; gensim is not imported."""
LICENCE = "CC BY-SA (English Wikipedia, the dump excerpt in gensim's package)"
"""The licence of the excerpt of a Wikipedia dump in the package gensim."""


def read(source: Source, folder: Path | None = None) -> Iterator[str]:
    """Yield the documents of a text source as plain text, in order; blank documents are left out."""
    if source.kind == "hub":
        texts = (row[source.column] for row in downloads.read(source, folder))
    else:
        texts = _KINDS[source.kind](source)
    return islice((text for text in texts if text.strip()), source.limit)


def licence(source: Source) -> str:
    """The licence of a source's texts: CC BY-SA for the Wikipedia sample, otherwise what the configuration states."""
    return LICENCE if source.kind == "wikipedia_sample" else source.licence or "not stated"


def labelled(source: Source, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield (sentence, class) for each row of a labelled dataset from the Hugging Face hub, such as SST-2."""
    for row in downloads.read(source, folder):
        yield row[source.column], row[source.label_column]


def _wikipedia_sample(source: Source) -> Iterator[str]:
    path = Path(metadata.distribution("gensim").locate_file(SAMPLE))
    with bz2.open(path) as file:
        for _, element in ElementTree.iterparse(file):
            tag = element.tag.rpartition("}")[2]
            if tag == "page":
                page = {child.tag.rpartition("}")[2]: child for child in element.iter()}
                # Namespace 0 holds the articles; others hold talk, categories and templates.
                if page["ns"].text == "0" and "redirect" not in page:
                    yield clean(page["text"].text or "")
                element.clear()


def clean(wikitext: str) -> str:
    """The plain text of a Wikipedia article, without templates, tables, references, files and categories."""
    import mwparserfromhell

    code = mwparserfromhell.parse(wikitext)
    _prune(code)
    # The parser leaves what is not well formed as text: unclosed tags and tables, quotes of half-open emphasis.
    text = re.sub(r"(?s)<ref[^>]*?/>|<ref.*?</ref>|</?[a-zA-Z][^<>]*>|'{2,}", "", code.strip_code())
    lines = (line.strip() for line in text.splitlines() if not re.match(r"\s*(\||!|\{\|)", line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _prune(code) -> None:
    """Remove tables, references, galleries, files and categories from parsed wikitext, at every depth."""
    code.nodes = [node for node in code.nodes if not _is_unwanted(node)]
    for node in code.nodes:
        for inner in node.__children__():
            _prune(inner)


def _is_unwanted(node) -> bool:
    from mwparserfromhell.nodes import Tag, Wikilink

    if isinstance(node, Tag):
        return str(node.tag).lower() in ("ref", "table", "gallery")
    return isinstance(node, Wikilink) and bool(re.match(r"(?i)(file|image|category):", str(node.title)))


def _files(source: Source) -> Iterator[str]:
    for path in _expand(source):
        raw = path.read_bytes()
        if not raw.strip():
            raise ValueError(f"{path}: an empty text file; expected UTF-8 text")
        if b"\0" in raw:
            raise ValueError(f"{path}: not a UTF-8 text file (it holds zero bytes)")
        try:
            yield raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not a UTF-8 text file ({error})") from None


def _parquet(source: Source) -> Iterator[str]:
    source = source.model_copy(update={"column": source.column or "text"})
    wanted = [name for name in (source.column, source.joined_by) if name]
    for path in _expand(source):
        try:
            file = pq.ParquetFile(path)
        except Exception as error:
            raise ValueError(f"{path}: no readable Parquet file ({error})") from None
        names = file.schema_arrow.names
        if missing := [name for name in wanted if name not in names]:
            raise ValueError(f"{path}: no column {missing[0]!r}; it has {', '.join(names)}")
        kind = file.schema_arrow.field(source.column).type
        words = kind.value_type if pa.types.is_dictionary(kind) else kind  # as pandas writes categories
        if not (pa.types.is_string(words) or pa.types.is_large_string(words)):
            raise ValueError(f"{path}: column {source.column!r} is of type {kind}; expected texts")
        # Without threads, see `store.read_arrow`.
        batches = file.iter_batches(downloads.TOGETHER, columns=wanted, use_threads=False)
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from (text for text in downloads.joined(rows, source) if text is not None)


def _expand(source: Source) -> list[Path]:
    found = source.matching_files()
    if missing := [path for path, files in found.items() if not files]:
        raise ValueError(f"paths: no file matches {', '.join(missing)}; expected at least one")
    return [Path(file) for files in found.values() for file in files]


_KINDS = {"wikipedia_sample": _wikipedia_sample, "files": _files, "parquet": _parquet}
