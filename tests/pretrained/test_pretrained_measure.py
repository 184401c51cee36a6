"""What is measured of a tiny model in a folder: from the files of a prepared text to those of the tables."""

import json
import shutil

import numpy as np
import pytest
from hand_made import contexts, prepared_text, tokenizer

from layernorm_roles import catalogue, store
from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.measure import SITES, measure, measure_files
from layernorm_roles.pretrained.projected import ones_shares
from layernorm_roles.pretrained.source import files_at
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


def test_the_files_hold_two_of_three_documents_and_say_of_which_model_and_text(folder, tmp_path, drawn):
    """The first document is too short, of the others each first long context is read, with all that is measured."""
    ends = (5,), (20, 30), (33, 42), (9,)
    frame = contexts(("sentences", range(9)), *(("long", range(*each)) for each in ends))
    text = prepared_text(tmp_path / "text", range(9), range(9), frame.assign(document=range(5)), 60)
    made = (name for name, stage in catalogue.TABLES.items() if stage == "pretrained")
    out = {name: tmp_path / f"{name}.parquet" for name in made}
    asked = settings(folder, 8).model_dump(mode="json") | {"contexts": 2, "cuts": [2, 3]}
    drawn.clear()
    measure_files({"job": "pretrained/tiny", "model": "tiny", "settings": asked}, text.manifest, out)
    assert drawn == {Stream.RANDOM_DIRECTION.number: {1, 2}}, "a context's number seeds its direction"
    identity = {"model": "tiny", "text": "made by hand"}
    tables = {name: store.read(path, name, identity) for name, path in out.items()}
    for name, table in tables.items():
        assert set(table.model) == {"tiny"} and set(table.context) == {1, 2}
        origin = store.read_provenance(out[name])
        assert json.loads(origin["config"])["settings"] == asked
        assert origin["seed_rule"] == describe((Stream.TEXT_SELECTION, Stream.RANDOM_DIRECTION), torch=True)
    keys, ceilings = tables["pretrained_keys"], tables["attention_ceilings"]
    assert {*keys.site} == {*SITES} and {*keys[keys.site == "head_cut"].dimensions} == {2, 3}
    assert {*ceilings.normalised} == {AS_USED, WITHOUT_NORM} and {*ceilings.checkpoint} == {"pretrained"}
    assert ceilings.seed.isna().all() and ceilings.variant.isna().all()
    read = recording.load(files_at(folder, "path"))
    given = {1: list(range(20, 28)), 2: list(range(33, 41))}
    shares = tables["ones_share"].sort_values(["context", "norm"])
    for name, model in (("pretrained", read), ("random", read.untrained(0))):
        rows = shares[shares.checkpoint == name]
        assert rows.seed.isna().all() if name == "pretrained" else (rows.seed == 0).all()
        known = ones_shares(model, given).sort_values(["context", "norm"])
        np.testing.assert_allclose(rows.ones_share, known.ones_share)
    for number, tokens in given.items():
        rows = tables["token_ceilings"].query(f"context == {number}")
        assert rows.groupby("position").token.agg(set).to_list() == [{f"w{i}"} for i in tokens]
