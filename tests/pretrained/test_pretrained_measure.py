"""What is measured of a tiny model in a folder: from the files of a prepared text to those of the tables."""

import shutil

import pytest
from hand_made import contexts, prepared_text, tokenizer

from layernorm_roles import store
from layernorm_roles.pretrained.measure import Measured, measure, measure_files
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
    assert set(measure("tiny", settings(folder, 64), [text]).pretrained_keys.n_keys) == {64}
    with pytest.raises(ValueError, match=r"^pretrained\.tiny\.context_length = 65: expected at most 64"):
        measure("tiny", settings(folder, 65), [text])


def test_the_files_say_of_which_model_and_text_they_are(folder, tmp_path):
    frame = contexts(("sentences", range(9)), ("long", range(5)), ("long", range(20, 30)))
    frame = frame.assign(document=[0, 1, 2])
    text = prepared_text(tmp_path / "text", range(9), range(9), frame, 60)
    out = {name: tmp_path / f"{name}.parquet" for name in Measured._fields}
    measure_files("tiny", settings(folder, 8).model_dump(mode="json"), text.manifest, out)
    tables = {
        name: store.read(path, name, {"model": "tiny", "text": "made by hand"}) for name, path in out.items()
    }
    assert all(set(table.model) == {"tiny"} and set(table.context) == {1} for table in tables.values())
    shares = tables["ones_share"].groupby("checkpoint").ones_share.mean()
    assert shares["random"] != shares["pretrained"], "the untrained model has other weights"
    spelt = tables["token_ceilings"].groupby("position").token.agg(set)
    assert list(spelt) == [{f"w{i}"} for i in range(20, 28)]
