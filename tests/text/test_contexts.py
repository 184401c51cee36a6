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
    assert contexts.sentences(text) == [
        "One is here.",
        'Two is "there"!',
        "(Three) of 3.5 m?",
        '"Four" ends.',
    ]


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        (["层归一化做两件事。", "它投影吗？", "“是的！”", "他说完了。"], "标题"),
        (["यह पहला वाक्य है।", "क्या यह दूसरा है?", "BBC तीसरा है।"], "शीर्षक"),
        (["هذه جملة أولى.", "هل هذه ثانية؟", "نعم، هي الثالثة!"], "عنوان"),
        (["no capitals here, e.g.", "at all.", "is it so?", "yes!"], "a heading"),
        (["École est un mot.", "«Élan» aussi.", "¿Y aquí?"], "Titre"),
        (["Это первое.", "Второе, т. е. следующее!"], "Заголовок"),
    ],
)
def test_sentences_of_other_scripts_and_of_texts_without_capitals(lines, others):
    """Chinese has no space between them; in lower case an abbreviation ends one, since nothing tells the two apart."""
    space = "" if "。" in lines[0] else " "
    assert contexts.sentences(f"{others}\n\n{space.join(lines)}\n{lines[0]}") == [*lines, lines[0]]


def test_where_no_line_ends_like_a_sentence_each_is_one():
    assert contexts.sentences("ประโยคแรก\n\n  ประโยคที่สอง \n") == ["ประโยคแรก", "ประโยคที่สอง"]
    assert contexts.sentences("roses are red\nviolets are blue") == ["roses are red", "violets are blue"]
    assert contexts.sentences("") == []


def test_sentences_beyond_the_longest_and_below_the_shortest_are_left_out():
    bytewise = tokenizer.train(["a"], 256)
    texts = ["No. Ten bytes. These are more bytes than are allowed here."]
    settings = Contexts(source=None, shortest=4, longest=12, contexts=1)
    ((document, tokens),) = contexts.candidates("sentences", settings, texts, bytewise)
    assert (document, bytewise.decode(tokens)) == (0, "Ten bytes.")
