"""What projections take away in random networks whose streams lie along the ones vector, or are orthogonal to it."""

from dataclasses import replace

import numpy as np
import pytest
from random_models import random_network

from layernorm_roles.heads.layer import LearnedNorm
from layernorm_roles.pretrained import projected, recording
from layernorm_roles.pretrained.source import files_at

CONTEXTS = {4: [3, 1, 41, 59, 2, 6, 53, 5, 8, 9], 7: [9, 8, 5, 53, 3, 2]}
EMBEDDINGS = {"gpt2": ["wte", "wpe"], "llama": ["embed_tokens"]}
WRITERS = {"gpt2": ["c_proj"], "llama": ["o_proj", "down_proj"]}
"""Modules whose outputs are added to the stream. GPT-2 stores their weights transposed."""


@pytest.fixture
def altered(tmp_path):
    """A function that loads a random network, with a number added to the embeddings or with centred writers."""

    def load(architecture, offset=0.0, centred=False):
        network = random_network(architecture)
        for name, module in network.named_modules():
            kind = name.rpartition(".")[2]
            if kind in EMBEDDINGS[architecture]:
                module.weight.data += offset
            if centred and kind in (*EMBEDDINGS[architecture], *WRITERS[architecture]):
                rows = kind in EMBEDDINGS[architecture] or architecture == "gpt2"
                for parameter in module.parameters():
                    axis = -1 if rows or parameter.ndim == 1 else 0
                    exact = parameter.data.double()
                    parameter.data = exact - exact.mean(axis, keepdim=True)
        network.double().save_pretrained(tmp_path / architecture)
        return recording.load(files_at(tmp_path / architecture, "path"))

    return load


@pytest.mark.parametrize(("architecture", "change"), [("gpt2", "left out"), ("llama", "added")])
def test_attention_moves_as_far_as_the_stream_lies_along_the_ones_vector(architecture, change, altered):
    model = altered(architecture, offset=20.0)
    table = projected.shifts(model, CONTEXTS)
    rows = table[(table.context == 7) & (table.layer == 2)]
    directions = {"total_variation": np.ones(24), "random_direction": projected.random_direction(24, 7)}
    for column, u in directions.items():
        usual, moved = (model.record(CONTEXTS[7], how)[1] for how in (None, projected.projection_changed(u)))
        for head, shift in zip(rows["head"], rows[column], strict=True):
            of_queries = np.maximum(usual.attention(head) - moved.attention(head), 0).sum(axis=1)
            assert shift == pytest.approx(of_queries.mean()), (column, head)
    assert set(table.change) == {change} and (table.total_variation > 0.02).all()
    place = ["context", "layer", "head"]
    assert table[place].to_numpy().tolist() == [[c, n, h] for c in CONTEXTS for n in (1, 2) for h in range(4)]
    still = projected.shifts(altered(architecture, centred=True), CONTEXTS)
    assert (still[["total_variation", "random_direction"]] < 1e-12).all(axis=None)


def test_queries_and_keys_keep_their_norms(model):
    kinds = []
    model("qwen3").record(CONTEXTS[4], lambda norm, x: kinds.append(x.shape) or norm(x))
    assert kinds == [(1, 10, 24)] * 5


def test_a_model_whose_norms_are_unknown_or_of_both_kinds_has_no_shifts(model, monkeypatch):
    assert projected.shifts(model("gpt_neox"), CONTEXTS).empty
    both = model("llama")
    first, second = both.record(CONTEXTS[4])
    mixed = [replace(first, norm=replace(first.norm, kind="layernorm")), second]
    monkeypatch.setattr(both, "record", lambda *_: mixed)
    assert projected.shifts(both, CONTEXTS).empty


def test_random_directions_are_as_long_as_the_ones_vector_and_orthogonal_to_it():
    one, other = (projected.random_direction(24, context) for context in (0, 1))
    for u in (one, other):
        assert u @ u == pytest.approx(24) and u.sum() == pytest.approx(0, abs=1e-12)
    assert not np.allclose(one, other)
    x = np.arange(48.0).reshape(2, 24) ** 2
    mean = x.mean(axis=1, keepdims=True)
    for kind, moved in (("layernorm", x - mean + mean * one), ("rmsnorm", x - mean * one)):
        found = projected.projection_changed(one)(LearnedNorm(kind, np.full(24, 2.0), np.ones(24), 0.5), x)
        sizes = np.sqrt((moved**2).mean(axis=1, keepdims=True) + 0.5)
        np.testing.assert_allclose(found, 1 + 2 * moved / sizes)


def test_each_norm_has_its_share_in_each_context(altered):
    model, names = altered("gpt2", offset=20.0), ["h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f"]
    table = projected.ones_shares(model, CONTEXTS)
    assert table.norm_name.to_list() == 2 * names and table.context.to_list() == [4] * 5 + [7] * 5
    for layer, norm in zip(model.record(CONTEXTS[7]), (1, 3), strict=True):
        x = layer.before_norm
        share = np.mean(x.sum(axis=1) ** 2 / (24 * np.square(x).sum(axis=1)))
        got = table[(table.context == 7) & (table.norm == norm)].ones_share.item()
        assert got == pytest.approx(share) and got > 0.9


def test_an_untrained_model_has_other_weights_that_its_seed_decides(model):
    model = model("bert")
    first, again, other = (
        recording.untrained(model.network.config, seed).record(CONTEXTS[4]) for seed in (0, 0, 1)
    )
    assert np.array_equal(first[1].keys, again[1].keys) and not np.allclose(first[1].keys, other[1].keys)
    assert first[1].keys.shape == model.record(CONTEXTS[4])[1].keys.shape
    assert (first[0].norm.gain == 1).all() and (model.record(CONTEXTS[4])[0].norm.gain != 1).all()
