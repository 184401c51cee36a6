"""Sources of text: the sample, files, Parquet, and Hugging Face layouts on disk."""

import bz2
import re
import sys
from functools import partial
from types import SimpleNamespace

import local_hub
import pandas as pd
import pytest

from layernorm_roles import files
from layernorm_roles.settings.text import Source
from layernorm_roles.text import documents, downloads


def read(**source):
    return list(documents.read(Source(**source)))


def read_downloaded(folder, **source):
    """The documents of a source of kind hub, downloaded to `folder` and read from there."""
    source = Source(kind="hub", **source)
    downloads.download(source, folder / source.file_name)
    return list(documents.read(source, folder))


def test_sample_is_clean_text_and_gensim_is_not_imported():
    texts = read(kind="wikipedia_sample", limit=12)
    assert len(texts) == 12 and texts[0].startswith("Anarchism is a political philosophy")
    assert "gensim" not in sys.modules
    own = {"kind": "files", "paths": ["a"]}
    stated = ({"kind": "wikipedia_sample", "licence": "x"}, own | {"licence": "x"}, own)
    assert [documents.licence(Source(**keys)) for keys in stated] == [documents.LICENCE, "x", "not stated"]
    assert not any(markup in text for markup in ("{{", "<ref", "''", "{|", "Category:") for text in texts)


def test_only_articles_of_a_wikipedia_dump_are_read(tmp_path, monkeypatch):
    """Not talk pages or categories (other namespaces), not redirects, and nothing without text."""

    def page(namespace, text, redirect=""):
        inside = f"<title>t</title><ns>{namespace}</ns>{redirect}<revision><text>{text}</text></revision>"
        return f"<page>{inside}</page>"

    pages = [page(0, "First article."), page(1, "Talk about the first article."), page(14, "A category.")]
    pages += [page(0, "#REDIRECT", '<redirect title="First" />'), page(0, ""), page(0, "Second article.")]
    dump = tmp_path / "dump.bz2"
    dump.write_bytes(bz2.compress(f"<mediawiki>{''.join(pages)}</mediawiki>".encode()))
    package = SimpleNamespace(locate_file=lambda name: dump)
    monkeypatch.setattr(documents, "metadata", SimpleNamespace(distribution=lambda name: package))
    assert read(kind="wikipedia_sample") == ["First article.", "Second article."]


def test_cleaning_keeps_words_and_drops_the_rest():
    wikitext = (
        "'''Albedo''' is a {{lang|la|whiteness}} [[reflection|reflecting power]].<ref>A [[book]]</ref>\n"
        "[[File:a.png|thumb|a [[link]] inside]]\n{| class=x\n| cell [[link]]\n|}\n== Heading ==\n[[Category:Light]]"
    )
    assert documents.clean(wikitext).split() == ["Albedo", "is", "a", "reflecting", "power.", "Heading"]
    broken = (
        "\n\n One ''two\n\n\n\n{| class=x\n| cell\n ! head\n<ref name=a>three <b>four</b> </ref>five</i>\n"
    )
    assert documents.clean(broken) == "One two\n\nfive"


@pytest.mark.parametrize("around", ["{}", "'''{}'''", "== {} ==", "[[page|{}]]", "<div>{}</div>", "* ''{}''"])
@pytest.mark.parametrize(
    "gone", ["<REF>a source</REF>", "[[File:a.png|a caption]]", "<gallery>a</gallery>", "[[image:a|b]]"]
)
def test_what_is_dropped_is_dropped_inside_other_nodes(around, gone):
    assert re.findall("[a-z]+", documents.clean(around.format(f"kept {gone} words"))) == ["kept", "words"]


def test_text_files_and_parquet(tmp_path):
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt").write_text("first é")
    assert read(kind="files", paths=[str(tmp_path / "*.txt")]) == ["first é", "second"]
    each = [str(tmp_path / name) for name in ("b.txt", "a.txt")]
    assert read(kind="files", paths=each, limit=1) == ["second"], "in the order of the paths"
    pd.DataFrame({"body": pd.Categorical(["x", "y", "x"])}).to_parquet(tmp_path / "x.parquet")
    assert read(kind="parquet", paths=[str(tmp_path / "x.parquet")], column="body") == ["x", "y", "x"]


SOURCES = [
    # a file and its content, the kind of source, and what is said of it
    ("a.txt", b" \n", "files", r"a\.txt: an empty"),
    ("a.txt", b"a\0b", "files", r"a\.txt: .*zero bytes"),
    ("a.txt", b"\xff\xfe\x41", "files", r"a\.txt: not a UTF-8"),
    ("b.txt", b"text", "files", r"no file matches \S*a\*; expected"),
    ("a.parquet", b"PAR1 but not really", "parquet", r"a\.parquet: no readable Parquet"),
    ("a.parquet", {"a": ["x"]}, "parquet", "no column 'text'; it has a"),
    ("a.parquet", {"text": [1, 2]}, "parquet", r"a\.parquet: column 'text' is of type int64; expected texts"),
]


@pytest.mark.parametrize(("name", "content", "kind", "said"), SOURCES)
def test_unusable_files_are_named(tmp_path, name, content, kind, said):
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else pd.DataFrame(content).to_parquet(path)
    with pytest.raises(ValueError, match=said):
        read(kind=kind, paths=[str(tmp_path / "a*"), str(tmp_path / "*")])


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A function that writes a dataset as the hub has it, and gives the keys of a source that reads a column of it."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))

    def make(columns, column):
        folder = local_hub.write(tmp_path / "dataset", "plain_text", {"validation": columns})
        return {"dataset": str(folder), "config": "plain_text", "split": "validation", "column": column}

    return make


def test_labelled_sentences(hub, tmp_path):
    keys = {"kind": "hub", **hub({"sentence": ["good", "bad"], "label": [1, 0]}, "sentence")}
    source = Source(**keys, label_column="label")
    first = source.model_copy(update={"limit": 1})
    for wanted in (source, first):
        downloads.download(wanted, tmp_path / wanted.file_name)
    assert list(documents.labelled(source, tmp_path)) == [("good", 1), ("bad", 0)]
    assert list(documents.labelled(first, tmp_path)) == [("good", 1)]
    for wrong in ("column", "label_column"):
        with pytest.raises(ValueError, match=r"no column \['stars'\]; it has \['sentence', 'label'\]"):
            downloads.download(Source(**keys | {wrong: "stars"}), tmp_path / "stars.parquet")
    assert not (tmp_path / "stars.parquet").exists()


def test_a_hub_that_does_not_answer_says_what_to_do(tmp_path, monkeypatch):
    import datasets

    def refuse(*names, split, streaming):
        raise ConnectionError(f"no route to {names}, {split}" if streaming else "all of it")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    keys = {"dataset": "a/squad", "config": "c", "split": "validation", "column": "context"}
    says = r"a/squad.*no route to \('a/squad', 'c'\), validation\n.*wikipedia_sample"
    with pytest.raises(ValueError, match=says):
        read_downloaded(tmp_path, **keys)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"kind hub need: pip install 'layernorm-roles\[paper\]'"):
        read_downloaded(tmp_path, **keys)


@pytest.mark.parametrize("kind", ["parquet", "hub"])
def test_empty_texts_and_repeated_paragraphs_are_left_out_up_to_the_limit(kind, hub, tmp_path):
    """A dataset of questions has a row for every question, and so a paragraph several times in a row."""
    rows = {"title": list("caaabbc"), "context": [" ", "p", "p", None, "r", "p", "\n"], "number": range(7)}
    keys, take = hub(rows, "context"), partial(read_downloaded, tmp_path)
    if kind == "parquet":
        # Columns of type string; pandas itself writes large_string.
        pd.DataFrame(rows).convert_dtypes(dtype_backend="pyarrow").to_parquet(tmp_path / "x.parquet")
        keys = {"kind": "parquet", "paths": [str(tmp_path / "x.parquet")], "column": "context"}
        take = read
    assert take(**keys) == ["p", "p", "r", "p"] and take(**keys, limit=3) == ["p", "p", "r"]
    assert take(**keys, joined_by="title") == ["p", "r\np"]
    assert take(**keys, joined_by="title", limit=1) == ["p"]
    with pytest.raises(ValueError, match=r"no column .*author"):
        take(**keys, joined_by="author")


def test_only_what_is_read_is_downloaded_and_what_is_not_there_is_said(hub, tmp_path, monkeypatch):
    keys = hub({"title": list("abc"), "text": ["one", "two", "three"]}, "text")
    limited = Source(kind="hub", **keys, limit=2)
    assert limited.file_name != Source(kind="hub", **keys).file_name
    monkeypatch.setattr(downloads, "TOGETHER", 2)
    for source, number in ((limited, 2), (Source(kind="hub", **keys), 3)):
        assert downloads.download(source, tmp_path / source.file_name) == number
    assert list(documents.read(source, tmp_path)) == ["one", "two", "three"]
    assert pd.read_parquet(tmp_path / limited.file_name).to_dict("list") == {"text": ["one", "two"]}
    with pytest.raises(ValueError, match=r"missing|not there|no such"):
        list(documents.read(limited, tmp_path / "elsewhere"))
    with pytest.raises(ValueError, match="was not downloaded"):
        list(documents.read(limited))
    files.checksum_file(tmp_path / limited.file_name).write_text("of another file")
    with pytest.raises(ValueError, match="damaged"):
        list(documents.read(limited, tmp_path))


def test_a_dataset_without_texts_is_refused(hub, tmp_path):
    with pytest.raises(ValueError, match="has no texts"):
        read_downloaded(tmp_path / "out", **hub({"text": [" ", None]}, "text"))
    assert not [*(tmp_path / "out").iterdir()]
