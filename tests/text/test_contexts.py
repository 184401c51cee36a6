"""Windows and sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles.settings.text import Contexts
from layernorm_roles.text import contexts, tokenizer


@given(st.integers(0, 300), st.integers(1, 50), st.integers(0, 50))
def test_windows_are_disjoint_in_order_and_of_the_right_length(size, shortest, more):
    tokens, longest = list(range(size)), shortest + more
    found = list(contexts.windows(tokens, shortest, longest))
    assert all(shortest <= len(window) <= longest for window in found)
    flat = [token for window in found for token in window]
    assert flat == tokens[: len(flat)]
    assert size - len(flat) < shortest


ENGLISH = 'A heading\nOne is here. Two is "there"! (Three) of 3.5 m?  "Four" ends.\n* an item\nNo end'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (ENGLISH, ["One is here.", 'Two is "there"!', "(Three) of 3.5 m?", '"Four" ends.']),
        # Chinese has no space between sentences.
        (
            "标题\n\n层归一化。它投影吗？“是的！”他说完。",
            ["层归一化。", "它投影吗？", "“是的！”", "他说完。"],
        ),
        (
            "शीर्षक\n\nयह पहला वाक्य है। क्या यह दूसरा है?\nBBC तीसरा है।",
            ["यह पहला वाक्य है।", "क्या यह दूसरा है?", "BBC तीसरा है।"],
        ),
        ("عنوان\n\nهذه جملة. هل هذه ثانية؟ نعم، هي!", ["هذه جملة.", "هل هذه ثانية؟", "نعم، هي!"]),
        # In lower case an abbreviation ends a sentence, since nothing tells the two apart.
        ("a heading\n\nno capitals, e.g. here. so? yes!", ["no capitals, e.g.", "here.", "so?", "yes!"]),
        ("Titre\n\nÉcole mot. «Élan» aussi. ¿Y aquí?", ["École mot.", "«Élan» aussi.", "¿Y aquí?"]),
        ("Заголовок\n\nЭто первое. Второе, т. е. следующее!", ["Это первое.", "Второе, т. е. следующее!"]),
        # Where no line ends like a sentence each is one.
        ("ประโยคแรก\n\n  ประโยคที่สอง \n", ["ประโยคแรก", "ประโยคที่สอง"]),
        ("roses are red\nviolets are blue", ["roses are red", "violets are blue"]),
        *((f"Α{stop} Β{stop}", [f"Α{stop}", f"Β{stop}"]) for stop in "॥۔։።"),
        ("一！二？（三。）四｡", ["一！", "二？", "（三。）", "四｡"]),
        ("Eins. “Zwei. „Drei. ¡Vier! 5 is. (Six.", ["Eins.", "“Zwei.", "„Drei.", "¡Vier! 5 is.", "(Six."]),
        ("", []),
    ],
)
def test_sentences_end_like_sentences_and_headings_are_left_out(text, found):
    assert contexts.sentences(text) == found


def test_sentences_beyond_the_longest_and_below_the_shortest_are_left_out():
    bytewise = tokenizer.train(["a"], 256)
    texts = ["No. Ten bytes. These are more bytes than are allowed here."]
    settings = Contexts(source=None, shortest=10, longest=10, contexts=1)
    ((document, tokens),) = contexts.candidates("sentences", settings, texts, bytewise)
    assert (document, bytewise.decode(tokens)) == (0, "Ten bytes.")
