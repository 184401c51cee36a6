"""Texts as tokens of a pretrained model's own tokenizer."""

import pandas as pd
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from layernorm_roles.pretrained.contexts import contexts, first_of_each_document, tokens_of
from layernorm_roles.pretrained.source import ModelFiles

WORDS = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", *"abcdefgh"]


def of_words():
    return Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))


@pytest.fixture(params=[True, False], ids=["of transformers", "tokenizer.json alone"])
def tokens(request, tmp_path):
    """The tokenizer of a model that writes [CLS] and [SEP] around a text, from either kind of file."""
    tokenizer = of_words()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.enable_padding(pad_id=3, pad_token="[PAD]", length=128)
    tokenizer.enable_truncation(4)
    if request.param:
        from transformers import PreTrainedTokenizerFast

        PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    else:
        tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tokens_of(ModelFiles(tmp_path, (tmp_path / "model.safetensors",)))


def test_texts_are_cut_and_keep_their_special_tokens(tokens):
    assert tokens.encode("a b c d e f", 6) == [0, 4, 5, 6, 7, 1]
    assert tokens.encode("a b", 6) == [0, 4, 5, 1]


def test_short_texts_are_left_out(tokens, capsys):
    texts = ["a", "a b c", "c d e f", "b b b b b b"]
    assert contexts(texts, tokens, 5, 2, "m") == {1: [0, 4, 5, 6, 1], 2: [0, 6, 7, 8, 1]}
    assert not capsys.readouterr().err
    assert [*contexts(texts, tokens, 5, 4, "m")] == [1, 2, 3]
    said = "pretrained.m.contexts = 4, but only 3 of the held-out texts have 5 tokens"
    assert said in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^pretrained.m.context_length = 50: expected fewer"):
        contexts(texts, tokens, 50, 4, "m")


def test_of_each_document_the_first_long_context_is_read():
    rows = [("sentences", 0, 7, [4]), ("long", 1, 9, [6]), ("long", 0, 9, [5, 6]), ("long", 2, 4, [7, 8])]
    table = pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
    assert first_of_each_document(table, of_words()) == ["b c", "d e"]


def test_tokens_that_the_tokenizer_calls_special_are_spelt_too(tmp_path):
    tokenizer = of_words()
    tokenizer.add_special_tokens(["[CLS]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokens = tokens_of(ModelFiles(tmp_path, (tmp_path / "model.safetensors",)))
    assert [tokens.spell(token) for token in (0, 4)] == ["[CLS]", "a"]
