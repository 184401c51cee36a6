"""What is measured of a tiny model in a folder, from a text as tokens of its own tokenizer to files of tables."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from hand_made import contexts, prepared_text, tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from layernorm_roles import catalogue, store
from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.contexts import contexts as tokenised
from layernorm_roles.pretrained.contexts import first_of_each_document, tokens_of
from layernorm_roles.pretrained.measure import SITES, measure, measure_files
from layernorm_roles.pretrained.projected import ones_shares
from layernorm_roles.pretrained.source import ModelFiles, files_at
from layernorm_roles.random_streams import Stream, describe
from layernorm_roles.schemas import AS_USED, WITHOUT_NORM
from layernorm_roles.settings.pretrained import PretrainedModel


@pytest.fixture
def folder(saved, tmp_path):
    """A random BERT that reads 64 tokens, and its tokenizer."""
    copy = shutil.copytree(saved("bert"), tmp_path / "model")
    tokenizer(60).save(str(copy / "tokenizer.json"))
    return copy


def settings(folder, length):
    return PretrainedModel(path=str(folder), text="words", contexts=1, context_length=length)


def test_a_context_may_be_as_long_as_the_model_reads(folder):
    text = " ".join(f"w{i % 60}" for i in range(70))
    assert set(measure("tiny", settings(folder, 64), [text])["pretrained_keys"].n_keys) == {64}
    with pytest.raises(ValueError, match=r"^pretrained\.tiny\.context_length = 65: expected at most 64"):
        measure("tiny", settings(folder, 65), [text])


def test_the_files_hold_two_of_three_documents_and_have_the_plan(folder, tmp_path, drawn):
    """The first document is too short, of the others each first long context is read, with all that is measured."""
    ends = (5,), (20, 30), (33, 42), (9,)
    frame = contexts(("sentences", range(9)), *(("long", range(*each)) for each in ends))
    text = prepared_text(tmp_path / "text", range(9), range(9), frame.assign(document=range(5)), 60)
    made = (name for name, stage in catalogue.TABLES.items() if stage == "pretrained_measure")
    out = {name: tmp_path / f"{name}.parquet" for name in made}
    asked = settings(folder, 8).model_dump(mode="json") | {"contexts": 2, "cuts": [2, 3]}
    drawn.clear()
    plan = {"job": "pretrained_measure/tiny", "model": "tiny", "settings": asked}
    measure_files(plan, text.manifest, out)
    assert drawn == {Stream.RANDOM_DIRECTION.number: {1, 2}}, "a context's number seeds its direction"
    tables = {name: store.read(path, name) for name, path in out.items()}
    for name, table in tables.items():
        assert set(table.model) == {"tiny"} and set(table.context) == {1, 2}
        origin = store.read_provenance(out[name])
        assert json.loads(origin["config"]) == plan
        assert origin["seed_rule"] == describe((Stream.TEXT_SELECTION, Stream.RANDOM_DIRECTION), torch=True)
    keys, ceilings = tables["pretrained_keys"], tables["attention_ceilings"]
    assert {*keys.site} == {*SITES} and {*keys[keys.site == "head_cut"].dimensions} == {2, 3}
    assert {*ceilings.normalised} == {AS_USED, WITHOUT_NORM} and {*ceilings.checkpoint} == {"pretrained"}
    assert ceilings.seed.isna().all() and ceilings.variant.isna().all()
    read = recording.load(files_at(folder, "path"))
    given = {1: list(range(20, 28)), 2: list(range(33, 41))}
    shares = tables["ones_share"].sort_values(["context", "norm"])
    for name, model in (("pretrained", read), ("random", recording.untrained(read.network.config, 0))):
        rows = shares[shares.checkpoint == name]
        assert rows.seed.isna().all() if name == "pretrained" else (rows.seed == 0).all()
        known = ones_shares(model, given).sort_values(["context", "norm"])
        np.testing.assert_allclose(rows.ones_share, known.ones_share)
    for number, tokens in given.items():
        rows = tables["token_ceilings"].query(f"context == {number}")
        assert rows.groupby("position").token.agg(set).to_list() == [{f"w{i}"} for i in tokens]


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
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    if request.param:
        from transformers import PreTrainedTokenizerFast

        PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    else:
        tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tokens_of(ModelFiles(tmp_path, (tmp_path / "model.safetensors",)))


def test_texts_are_cut_and_keep_their_special_tokens_and_short_ones_are_left_out(tokens, capsys):
    assert tokens.encode("a b c d e f", 6) == [0, 4, 5, 6, 7, 1]
    assert tokens.encode("a b", 6) == [0, 4, 5, 1]
    assert [tokens.spell(token) for token in (0, 4)] == ["[CLS]", "a"]
    texts = ["a", "a b c", "c d e f", "b b b b b b"]
    assert tokenised(texts, tokens, 5, 2, "m") == {1: [0, 4, 5, 6, 1], 2: [0, 6, 7, 8, 1]}
    assert not capsys.readouterr().err
    assert [*tokenised(texts, tokens, 5, 4, "m")] == [1, 2, 3]
    said = "pretrained.m.contexts = 4, but only 3 of the held-out texts have 5 tokens"
    assert said in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^pretrained.m.context_length = 50: expected fewer"):
        tokenised(texts, tokens, 50, 4, "m")


def test_of_each_document_the_first_long_context_is_read():
    rows = [("sentences", 0, 7, [4]), ("long", 1, 9, [6]), ("long", 0, 9, [5, 6]), ("long", 2, 4, [7, 8])]
    table = pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])
    assert first_of_each_document(table, of_words()) == ["b c", "d e"]
