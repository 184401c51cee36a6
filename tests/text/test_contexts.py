"""The split by document, windows and sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles.settings.text import Contexts, Split
from layernorm_roles.text import contexts, tokenizer
from layernorm_roles.text.prepare import part_of

SPLIT = Split(training=0.6, validation=0.2, held_out=0.2)


def test_the_split_has_its_shares():
    parts = [part_of(str(i), SPLIT) for i in range(20_000)]
    for part, share in SPLIT.model_dump().items():
        assert parts.count(part) / len(parts) == pytest.approx(share, abs=0.02)
    assert part_of("x", Split(training=0.5, validation=0.5, held_out=0.0)) != "held_out"


@given(st.integers(0, 300), st.integers(1, 50), st.integers(0, 50))
def test_windows_are_disjoint_in_order_and_of_the_right_length(size, shortest, more):
    tokens, longest = list(range(size)), shortest + more
    found = list(contexts.windows(tokens, shortest, longest))
    assert all(shortest <= len(window) <= longest for window in found)
    flat = [token for window in found for token in window]
    assert flat == tokens[: len(flat)]
    assert size - len(flat) < shortest


def test_sentences_end_like_sentences_and_headings_are_left_out():
    text = 'A heading\nOne is here. Two is "there"! (Three) of 3.5 m?  "Four" ends.\n* an item\nNo end'
    found = [*contexts.sentences(text)]
    assert found == ["One is here.", 'Two is "there"!', "(Three) of 3.5 m?", '"Four" ends.']


def test_sentences_beyond_the_longest_and_below_the_shortest_are_left_out():
    bytewise = tokenizer.train(["a"], 256)
    texts = ["No. Ten bytes. These are more bytes than are allowed here."]
    settings = Contexts(source=None, shortest=4, longest=12, contexts=1)
    (row,) = contexts.choose("sentences", settings, texts, bytewise, 0).itertuples()
    assert bytewise.decode(list(row.tokens)) == "Ten bytes."
    with pytest.raises(ValueError, match="give 1 of 4 to 12 tokens"):
        contexts.choose("sentences", settings.model_copy(update={"contexts": 2}), texts, bytewise, 0)
