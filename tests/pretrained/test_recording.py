"""Recorded layers against transformers' own attention weights and streams, and against their weights and norms."""

import shutil
from functools import cache

import numpy as np
import pytest
import torch
from random_models import random_network
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from layernorm_roles.heads.layer import Rotation
from layernorm_roles.pretrained import projections, recording
from layernorm_roles.pretrained.source import files_at

TOKENS = [3, 1, 41, 59, 2, 6, 53, 5, 8, 9]
KIN = ["bert", "gpt2", "llama", "roberta", "distilbert", "mistral", "qwen3", "gemma", "phi3"]
HEADS_ONLY = ["gpt_neox", "cohere"]


@pytest.fixture(scope="module")
def recorded(model):
    """A function from the name of an architecture to the recorded layers of its random model."""
    return cache(lambda architecture: model(architecture).record(TOKENS))


@pytest.mark.parametrize("architecture", [*KIN, *HEADS_ONLY])
def test_attention_and_streams_are_those_of_transformers_and_norm_and_projections_lead_from_one_to_the_other(
    architecture, saved, recorded
):
    """Of an unknown architecture the heads alone are known."""
    network = AutoModel.from_pretrained(saved(architecture), dtype=torch.float64, attn_implementation="eager")
    with torch.no_grad():
        out = network.eval()(torch.tensor([TOKENS]), output_attentions=True, output_hidden_states=True)
    layers = recorded(architecture)
    assert [layer.layer for layer in layers] == [1, 2]
    for layer, expected, hidden in zip(layers, out.attentions, out.hidden_states, strict=False):
        # There RMSNorm is rounded to float32.
        tolerance = 1e-13 if layer.norm and layer.norm.kind == "layernorm" else 1e-5
        found = [layer.attention(head) for head in range(len(layer.queries))]
        np.testing.assert_allclose(found, expected[0], rtol=0, atol=tolerance)
        assert layer.scaling == pytest.approx(1 / np.sqrt(layer.keys.shape[2]), rel=1e-15)
        assert layer.causal == ("bert" not in architecture)
        if architecture in HEADS_ONLY:
            assert layer.attention_input is layer.before_norm is layer.norm is None
            assert layer.query_projection is layer.key_projection is None
            assert layer.queries.shape == (4, 10, 6)
            continue
        x = layer.attention_input
        stream = x if "bert" in architecture else layer.before_norm
        np.testing.assert_allclose(stream, hidden[0], rtol=0, atol=10 * tolerance * abs(stream).max())
        np.testing.assert_allclose(layer.norm(layer.before_norm), x, rtol=0, atol=1e-13)
        np.testing.assert_allclose(layer.query_projection(x), layer.queries, atol=1e-11)
        np.testing.assert_allclose(layer.key_projection(x), layer.keys, atol=1e-11)
        assert (layer.key_projection.rotation is None) == ("bert" in architecture or architecture == "gpt2")
        assert (layer.key_projection.norm is not None) == (architecture == "qwen3")


def test_a_known_name_with_an_unknown_meaning_gives_heads_only(model):
    # The projection of this model's keys does something that its weights do not say.
    model = model("bert")
    attention = model.network.encoder.layer[1].attention.self
    plain = attention.key.forward
    attention.key.forward = lambda x: (1 + 1e-6) * plain(x)
    first, second = model.record(TOKENS)
    assert first.attention_input is not None
    assert second.attention_input is None


def test_scores_have_the_scaling_that_the_model_gives_them(model):
    model = model("llama")
    model.network.layers[1].self_attn.scaling = 0.3
    assert [layer.scaling for layer in model.record(TOKENS)] == [pytest.approx(6**-0.5), 0.3]


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (torch.nn.LayerNorm(6, eps=0.1), "layernorm"),
        (torch.nn.LayerNorm(6, elementwise_affine=False), "layernorm"),
        (torch.nn.RMSNorm(6, eps=0.1), "rmsnorm"),
        (torch.nn.Tanh(), None),
    ],
)
def test_a_norm_is_what_gives_the_numbers_of_the_module(module, kind):
    x = np.random.default_rng(0).standard_normal((3, 6)) + 1
    y = module.double()(torch.from_numpy(x)).detach().numpy()
    found = projections.learned_norm(module, x, y)
    assert found is kind is None or found.kind == kind
    assert projections.learned_norm(module, x, y * (1 + 1e-4)) is None


def test_a_rotation_that_a_module_does_not_use_is_not_read_into_it():
    module, rotation = torch.nn.Module(), Rotation(np.zeros((5, 2)), np.ones((5, 2)))
    module.q_proj, module.k_proj = torch.nn.Linear(6, 4).double(), torch.nn.Linear(6, 2).double()
    x = np.random.default_rng(0).standard_normal((5, 6))
    given = [
        linear(torch.from_numpy(x)).detach().unflatten(1, (-1, 2)).transpose(0, 1).numpy()
        for linear in (module.q_proj, module.k_proj)
    ]
    for queries, keys, used in ((*given, None), (*map(rotation, given), rotation)):
        found = projections.projections(module, x, queries, keys, (None, None), rotation)
        assert [one.rotation for one in found] == [used, used]


def test_recording_leaves_the_model_as_it_was(model):
    model = model("llama")
    first, _, again = (model.record(tokens) for tokens in (TOKENS, TOKENS[:4], TOKENS))
    for a, b in zip(first, again, strict=True):
        assert (a.keys == b.keys).all() and (a.before_norm == b.before_norm).all()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.network.modules())


@pytest.mark.parametrize(
    ("architecture", "tokens", "says"),
    [
        ("bloom", [1], "AttentionInterface"),
        ("t5", [1], "expected one of them alone"),
        ("gemma2", TOKENS, "Gemma2Attention has softcap"),
        ("gpt2", [1] * 65, "65 tokens: expected at most 64"),
        ("gpt2", [1, 60], "token 60 of 60, from 0: the tokenizer is that of another model"),
    ],
)
def test_what_cannot_be_recorded_is_refused(architecture, tokens, says, model):
    with pytest.raises(ValueError, match=says):
        model(architecture).record(tokens)


def test_missing_and_damaged_weights_are_named(saved, tmp_path):
    file = shutil.copytree(saved("llama"), tmp_path / "model") / "model.safetensors"
    tensors, name = load_file(file), "layers.1.self_attn.k_proj.weight"

    def refused(says):
        with pytest.raises(ValueError, match=says):
            recording.load(files_at(file.parent, "path"))

    save_file({key: values.bfloat16() for key, values in tensors.items()}, file, {"format": "pt"})
    recording.load(files_at(file.parent, "path"))
    tensors[name][0, 0] = torch.nan
    save_file(tensors, file, {"format": "pt"})
    refused(f"{name} has weights that are not finite")
    for dtype in (torch.int8, torch.bool, torch.complex64):
        save_file(tensors | {name: tensors[name].nan_to_num().to(dtype)}, file, {"format": "pt"})
        refused(f"{name} is of type .*: expected floating-point weights")
    del tensors[name]
    save_file(tensors, file, {"format": "pt"})
    refused(f"1 weights are missing, .* {name}")
    file.write_bytes(b"no model")
    refused(r"^[^\n]*no model that transformers can load[^\n]*\Z")


def test_weights_that_no_layer_reads_may_be_missing_or_no_floats(saved, recorded, tmp_path):
    """BERT's pooler comes after the last layer, and old files hold the numbers of positions."""
    file = shutil.copytree(saved("bert"), tmp_path / "model") / "model.safetensors"
    tensors = {name: values for name, values in load_file(file).items() if not name.startswith("pooler.")}
    save_file(tensors | {"embeddings.position_ids": torch.arange(64)[None]}, file, {"format": "pt"})
    layers = recording.load(files_at(file.parent, "path")).record(TOKENS)
    np.testing.assert_array_equal(layers[1].keys, recorded("bert")[1].keys)


def test_a_model_in_shards_is_the_model(saved, recorded, tmp_path):
    random_network("llama").save_pretrained(tmp_path, max_shard_size="12KB")
    files = files_at(tmp_path, "path")
    assert len(files.weights) > 2
    for ours, expected in zip(recording.load(files).record(TOKENS), recorded("llama"), strict=True):
        assert (ours.keys == expected.keys).all()


def test_a_mask_may_hide_keys_and_not_add_numbers_to_scores():
    """Without a mask all keys are seen, whatever a module says of itself: so is eager attention's."""
    module = torch.nn.Identity()
    for module.is_causal in (True, False):
        assert recording._visible(module, None, 3).all()
    mask = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    mask[..., 0, 1] = torch.finfo(torch.float64).min
    assert np.argwhere(~recording._visible(module, mask, 3)).tolist() == [[0, 1]]
    mask[..., 2, 0] = -1.0
    of_heads = torch.ones(1, 2, 3, 3, dtype=torch.bool)
    assert recording._visible(module, of_heads, 3).all()
    of_heads[0, 1, 2, 0] = False
    for each in (mask, of_heads):
        with pytest.raises(ValueError, match="Identity adds numbers to scores"):
            recording._visible(module, each, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({name: 0.0}, f"Identity has {name}: ") for name in ("position_bias", "softcap", "s_aux", "new")),
        ({"dropout": 0.1}, "Identity has dropout: "),
        ({"n": 4}, "has 3 queries for 3 keys: expected as many as the 4 tokens"),
        ({"keys": 2}, "has 3 queries for 2 keys"),
    ],
)
def test_attention_that_is_more_than_inner_products_is_refused(options, says):
    """Options of attention are those that are known, and its queries and keys are those of the tokens."""
    n, keys = options.pop("n", 3), torch.zeros(1, 1, options.pop("keys", 3), 4)
    with pytest.raises(ValueError, match=says):
        attend(recording._Calls(n, None, set()), keys, **options)


def attend(calls, keys, **options):
    queries = torch.zeros(1, 1, 3, 4)
    recording._attend(calls, torch.nn.Identity(), queries, keys, keys, attention_mask=None, **options)


def test_options_that_change_nothing_may_be_given():
    calls = recording._Calls(3, None, set())
    given = {"dropout": 0.0, "sliding_window": 2, "is_causal": True, "softcap": None, "position_ids": 1}
    attend(calls, torch.zeros(1, 1, 3, 4), **given)
    assert calls.layers[0].scaling == 0.5, "torch's own, where a model gives none"
