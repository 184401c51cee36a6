"""Limits of a source and of contexts: what does not count towards them, and what they leave out."""

import pandas as pd
import pytest

from layernorm_roles.settings.text import Contexts, Source
from layernorm_roles.text import documents, tokenizer
from layernorm_roles.text.contexts import choose


def test_empty_documents_do_not_count_towards_the_limit(tmp_path):
    pd.DataFrame({"text": ["one", " ", None, "two", "three"]}).to_parquet(tmp_path / "x.parquet")
    source = Source(kind="parquet", paths=[str(tmp_path / "x.parquet")], limit=2)
    assert list(documents.read(source)) == ["one", "two"]


def test_sentences_beyond_the_longest_and_below_the_shortest_are_left_out():
    bytewise = tokenizer.train(["a"], 256)
    texts = ["No. Ten bytes. These are more bytes than are allowed here."]
    settings = Contexts(source=None, shortest=4, longest=12, contexts=1)
    (row,) = choose("sentences", settings, texts, bytewise, 0).itertuples()
    assert bytewise.decode(list(row.tokens)) == "Ten bytes."
    with pytest.raises(ValueError, match="give 1 of 4 to 12 tokens"):
        choose("sentences", settings.model_copy(update={"contexts": 2}), texts, bytewise, 0)
