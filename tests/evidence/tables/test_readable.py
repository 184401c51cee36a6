"""Sentences and tokens as readers see them, and their rendering as Markdown."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from layernorm_roles.evidence.page import text
from layernorm_roles.evidence.tables import readable, typography
from layernorm_roles.evidence.tables.readable import grid, markdown, sentence

AWKWARD = r"""
a | b
2 * 3 * 4
**bold** and _not_ d_k
<script>alert(1)</script> <b>
&lt; &amp;
[link](address) and [1.0, 2.0]
back\slash \| and `code`
~~gone~~
# no heading
1. no list
- no list
> no quotation
[ ] no task
""".strip().splitlines()


def visible(text: str) -> list[str]:
    """The text of every cell, paragraph and bullet that a reader of the Markdown sees."""
    found = []
    for token in MarkdownIt("gfm-like", {"html": True, "linkify": False}).parse(text):
        if token.type == "inline":
            assert {child.type for child in token.children} <= {"text"}
            found.append("".join(child.content for child in token.children))
    return found


@pytest.mark.parametrize("text", [*AWKWARD, "two\nlines"])
def test_awkward_text_reads_in_markdown_as_it_is(text):
    shown = text.replace("\n", " ")
    parts = [text, grid([(text, "1"), ("x", text)], {text: "{0[0]}", "n": "{0[1]}"}), [text]]
    assert visible(markdown(parts)) == [shown, shown, "n", shown, "1", "x", shown, shown]


@given(
    st.lists(
        st.tuples(st.text("ab(*.− \ufffd|_", min_size=1, max_size=4), st.booleans()), min_size=1, max_size=8
    )
)
def test_markdown_shows_a_sentence_whole_with_its_marked_characters_in_brackets(tokens):
    text = sentence(tokens)
    plain = "".join(text for text, _ in tokens)
    assert text.replace("⟦", "").replace("⟧", "").replace("□", "") == plain.replace("\ufffd", "")
    assert "".join(visible(markdown([[text]]))) == text.strip()


def test_spaces_and_line_breaks_are_not_marked():
    assert sentence([(" al", True), (" or", True), ("\n", True)]) == " ⟦al⟧ ⟦or⟧ "


@pytest.mark.parametrize("module", [readable, typography, text])
def test_examples_in_the_docstrings(module):
    done = doctest.testmod(module)
    assert done.attempted and not done.failed
