"""Recorded queries and keys against those computed by hand, and against transformers' own attention weights."""

import shutil

import by_hand
import numpy as np
import pytest
import torch
from random_models import random_network
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModel

from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.source import files_at

TOKENS = [3, 1, 41, 59, 2, 6, 53, 5, 8, 9]
PAPERS = {"bert": by_hand.bert, "gpt2": by_hand.gpt2, "llama": by_hand.llama}
KIN = [*PAPERS, "roberta", "distilbert", "mistral", "qwen3", "gemma", "phi3"]
HEADS_ONLY = ["gpt_neox", "cohere"]


@pytest.fixture(scope="module")
def recorded(saved):
    """A function from the name of an architecture to the recorded layers of its random model."""
    known = {}

    def record(architecture):
        if architecture not in known:
            model = recording.load(files_at(saved(architecture), "path"))
            known[architecture] = model.record(TOKENS)
        return known[architecture]

    return record


@pytest.mark.parametrize("architecture", PAPERS)
def test_recorded_numbers_equal_those_computed_by_hand(architecture, saved, recorded):
    weights = load_file(saved(architecture) / "model.safetensors")
    weights = {name: array.astype(np.float64) for name, array in weights.items()}
    config = AutoConfig.from_pretrained(saved(architecture))
    expected = PAPERS[architecture](weights, config, TOKENS)
    layers = recorded(architecture)
    assert [layer.layer for layer in layers] == [1, 2]
    for layer, hand in zip(layers, expected, strict=True):
        for ours, theirs in (
            (layer.queries, hand.queries),
            (layer.keys, hand.keys),
            (layer.attention_input, hand.attention_input),
            (layer.before_norm, hand.stream),
        ):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * abs(theirs).max())
        assert layer.scaling == pytest.approx(1 / np.sqrt(6), rel=1e-15)
        assert layer.causal == (architecture != "bert")


def test_grouped_key_heads_are_not_repeated(recorded):
    assert recorded("llama")[0].queries.shape == (4, 10, 6)
    assert recorded("llama")[0].keys.shape == (2, 10, 6)


@pytest.mark.parametrize("architecture", [*KIN, *HEADS_ONLY])
def test_softmax_of_the_recorded_scores_is_the_attention_of_transformers(architecture, saved, recorded):
    network = AutoModel.from_pretrained(saved(architecture), dtype=torch.float64, attn_implementation="eager")
    with torch.no_grad():
        attentions = network.eval()(torch.tensor([TOKENS]), output_attentions=True).attentions
    # There RMSNorm is rounded to float32.
    for layer, expected in zip(recorded(architecture), attentions, strict=True):
        tolerance = 1e-13 if layer.norm and layer.norm.kind == "layernorm" else 1e-5
        np.testing.assert_allclose(
            [layer.attention(head) for head in range(len(layer.queries))], expected[0], rtol=0, atol=tolerance
        )


@pytest.mark.parametrize("architecture", KIN)
def test_norm_and_projections_lead_from_the_stream_to_the_heads(architecture, recorded):
    for layer in recorded(architecture):
        assert layer.attention_input is not None
        np.testing.assert_allclose(layer.norm(layer.before_norm), layer.attention_input, rtol=0, atol=1e-13)
        np.testing.assert_allclose(layer.query_projection(layer.attention_input), layer.queries, atol=1e-11)
        np.testing.assert_allclose(layer.key_projection(layer.attention_input), layer.keys, atol=1e-11)
    assert (layer.key_projection.rotation is not None) == (
        "bert" not in architecture and architecture != "gpt2"
    )
    assert (layer.key_projection.norm is not None) == (architecture == "qwen3")


@pytest.mark.parametrize("architecture", HEADS_ONLY)
def test_of_an_unknown_architecture_the_heads_alone_are_known(architecture, recorded):
    for layer in recorded(architecture):
        assert layer.attention_input is None
        assert layer.before_norm is layer.norm is layer.query_projection is layer.key_projection is None
        assert layer.queries.shape == (4, 10, 6)


def test_a_known_name_with_an_unknown_meaning_gives_heads_only(saved):
    # The projection of this model's keys does something that its weights do not say.
    model = recording.load(files_at(saved("bert"), "path"))
    attention = model.network.encoder.layer[1].attention.self
    plain = attention.key.forward
    attention.key.forward = lambda x: 2 * plain(x)
    first, second = model.record(TOKENS)
    assert first.attention_input is not None
    assert second.attention_input is None


def test_a_sliding_window_hides_keys_that_are_far(recorded):
    ages = np.arange(10)[:, None] - np.arange(10)
    assert (recorded("mistral")[0].visible == ((ages >= 0) & (ages < 5))).all()
    assert recorded("mistral")[0].causal


def test_recording_leaves_the_model_as_it_was(saved):
    model = recording.load(files_at(saved("llama"), "path"))
    first = model.record(TOKENS)
    model.record(TOKENS[:4])
    again = model.record(TOKENS)
    for a, b in zip(first, again, strict=True):
        assert (a.keys == b.keys).all()
        assert (a.before_norm == b.before_norm).all()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.network.modules())


@pytest.mark.parametrize(
    ("architecture", "message"),
    [("bloom", "AttentionInterface"), ("t5", "expected one of them alone")],
)
def test_attention_that_cannot_be_recorded_is_refused(architecture, message, saved):
    with pytest.raises(ValueError, match=message):
        recording.load(files_at(saved(architecture), "path"))


def test_a_context_longer_than_the_model_reads_is_refused(saved):
    model = recording.load(files_at(saved("gpt2"), "path"))
    with pytest.raises(ValueError, match="65 tokens: expected at most 64"):
        model.record([1] * 65)
    with pytest.raises(ValueError, match="token 60 of 60, from 0: the tokenizer is that of another model"):
        model.record([1, 60])


def test_weights_that_are_not_finite_are_named(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["layers.1.self_attn.k_proj.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ValueError, match=r"layers\.1\.self_attn\.k_proj\.weight has weights that are not finite"
    ):
        recording.load(files_at(folder, "path"))


def test_missing_weights_are_refused_instead_of_drawn(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    del tensors["layers.1.self_attn.k_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ValueError, match=r"1 weights are missing, the first layers\.1\.self_attn\.k_proj\.weight"
    ):
        recording.load(files_at(folder, "path"))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_what_is_no_model_is_refused_in_one_line(file, saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    (folder / file).write_bytes(b"no model")
    with pytest.raises(ValueError, match="no model that transformers can load") as refusal:
        recording.load(files_at(folder, "path"))
    assert "\n" not in str(refusal.value)


def test_a_model_in_shards_is_the_model(saved, recorded, tmp_path):
    random_network("llama").save_pretrained(tmp_path, max_shard_size="12KB")
    files = files_at(tmp_path, "path")
    assert len(files.weights) > 2
    for ours, expected in zip(recording.load(files).record(TOKENS), recorded("llama"), strict=True):
        assert (ours.keys == expected.keys).all()


def test_scores_that_are_capped_are_refused(saved):
    with pytest.raises(ValueError, match="Gemma2Attention has softcap"):
        recording.load(files_at(saved("gemma2"), "path")).record(TOKENS)


def test_a_mask_may_hide_keys_and_not_add_numbers_to_scores():
    mask = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    mask[..., 0, 1] = torch.finfo(torch.float64).min
    hidden = recording._visible(torch.nn.Identity(), mask, 3, None)
    assert np.argwhere(~hidden).tolist() == [[0, 1]]
    mask[..., 2, 0] = -1.0
    with pytest.raises(ValueError, match="Identity adds numbers to scores"):
        recording._visible(torch.nn.Identity(), mask, 3, None)
