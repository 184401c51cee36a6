"""Sentences and tokens as readers see them, and their rendering as Markdown."""

import doctest
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from layernorm_roles.evidence.page import sections
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
2) no list
+ no list
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
    assert readable.token_text(" \t\n") == "␣⇥⏎"


def test_numbers_are_to_the_right_of_texts_and_wide_tables_dense():
    """Eight columns are not wide yet."""
    assert "|:---|---:|" in re.sub("-+", "---", markdown([grid(["a"], {"x": "{}", "n": "{}"}, texts=1)]))
    tables = [grid(["a"], {str(number): "{}" for number in range(columns)}) for columns in (8, 9)]
    assert ["dense" in readable.html(table) for table in tables] == [False, True]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (typography.number(0.001), "0.00100"),
        (typography.number(0.00099), "9.9\u00a0×\u00a010⁻⁴"),
        (typography.number(1e6), "1.0\u00a0×\u00a010⁶"),
        (typography.number(99.95), "100"),
        (typography.number(0.0), "0"),
        (typography.number(-np.inf), "−∞"),
        (typography.estimate(2.0, -np.inf, 3.0, ".0f"), "≤ 2"),
        (typography.estimate(2.0, -np.inf, np.inf, ".0f"), "–"),
        (typography.estimate(np.nan, 1.0, 2.0, ".0f"), "–"),
    ],
)
def test_numbers_at_the_ends_of_their_forms(written, expected):
    assert written == expected


@pytest.mark.parametrize("module", [readable, typography, sections])
def test_examples_in_the_docstrings(module):
    done = doctest.testmod(module)
    assert done.attempted and not done.failed
