"""Texts as tokens of a pretrained model's own tokenizer."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from layernorm_roles.pretrained.contexts import contexts, encoder
from layernorm_roles.pretrained.source import ModelFiles

WORDS = ["[CLS]", "[SEP]", "[UNK]", "[PAD]", *"abcdefgh"]


@pytest.fixture(params=[True, False], ids=["of transformers", "tokenizer.json alone"])
def encode(request, tmp_path):
    """The tokenizer of a model that writes [CLS] and [SEP] around a text, from either kind of file."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.enable_padding(pad_id=3, pad_token="[PAD]", length=128)
    tokenizer.enable_truncation(4)
    if request.param:
        from transformers import PreTrainedTokenizerFast

        PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    else:
        tokenizer.save(str(tmp_path / "tokenizer.json"))
    return encoder(ModelFiles(tmp_path, (tmp_path / "model.safetensors",)))


def test_texts_are_cut_and_keep_their_special_tokens(encode):
    assert encode("a b c d e f", 6) == [0, 4, 5, 6, 7, 1]
    assert encode("a b", 6) == [0, 4, 5, 1]


def test_short_texts_are_left_out(encode):
    texts = ["a", "a b c", "c d e f", "b b b b b b"]
    assert contexts(texts, encode, 5, 2, "m") == {1: [0, 4, 5, 6, 1], 2: [0, 6, 7, 8, 1]}
    with pytest.raises(ValueError, match=r"^pretrained.m.contexts = 4: expected at most 3"):
        contexts(texts, encode, 5, 4, "m")


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected tokenizer_config.json or tokenizer.json"):
        encoder(ModelFiles(tmp_path, (tmp_path / "model.safetensors",)))
