"""What is silently wrong if nobody looks: files that are not read, layers, norms and masks that are not the model's."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from random_models import random_network
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from layernorm_roles.heads.layer import LearnedNorm
from layernorm_roles.pretrained import projected, recording
from layernorm_roles.pretrained.source import files_at

TOKENS = [3, 11, 41, 59, 12, 6, 53, 15, 8, 9]


def eager(folder, tokens=TOKENS):
    """Attention weights of transformers' eager attention, as transformers returns them."""
    options = {"attn_implementation": "eager", "experts_implementation": "eager"}
    network = AutoModel.from_pretrained(folder, dtype=torch.float64, **options)
    with torch.no_grad():
        return network.eval()(torch.tensor([tokens]), output_attentions=True).attentions


@pytest.fixture
def changed(saved, tmp_path):
    """A function that copies an architecture's folder with other tensors or another configuration, and loads it."""

    def load(architecture, tensors=None, config=None):
        folder = shutil.copytree(saved(architecture), tmp_path / "model")
        file = folder / "model.safetensors"
        save_file(load_file(file) | (tensors or {}), file, {"format": "pt"})
        said = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(said | (config or {})))
        return recording.load(files_at(folder, "path"))

    return load


def test_biases_are_read_where_the_configuration_has_them_and_refused_where_it_denies_them(tmp_path):
    random_network("llama", attention_bias=True).save_pretrained(tmp_path)
    read = recording.load(files_at(tmp_path, "path"))
    assert read.check(TOKENS) < 1e-12
    layer, tensors = read.record(TOKENS)[1], load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        layer.key_projection.bias.ravel(), tensors["layers.1.self_attn.k_proj.bias"]
    )
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"attention_bias": False}))
    with pytest.raises(
        ValueError, match=r"layers.0.self_attn.k_proj.bias is in the weights, and llama .* no place"
    ):
        recording.load(files_at(tmp_path, "path"))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("layers.0.self_attn.q_proj.weight_scale", False),
        ("model.layers.1.self_attn.sinks", False),
        ("layers.2.self_attn.q_proj.weight", False),
        ("lm_head.weight", True),
        ("score.weight", True),
    ],
)
def test_tensors_beside_those_of_the_architecture_are_refused_if_they_belong_to_its_modules(
    name, read, changed
):
    given = {name: torch.ones(2)}
    if read:
        assert changed("llama", given).check(TOKENS) < 1e-12
        return
    with pytest.raises(ValueError, match=rf"model: {name} is in the weights"):
        changed("llama", given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_weights_are_of_the_floating_types_that_are_named(dtype, changed, saved):
    name = "layers.1.self_attn.k_proj.weight"
    given = load_file(saved("llama") / "model.safetensors")[name].to(dtype)
    if dtype == torch.float8_e4m3fn:
        with pytest.raises(ValueError, match=f"{name} is of type F8_E4M3: expected"):
            changed("llama", {name: given})
        return
    weight = changed("llama", {name: given}).record(TOKENS)[1].key_projection.weight
    np.testing.assert_array_equal(weight.reshape(12, 24), given.double())


@pytest.mark.parametrize(
    ("architecture", "causal"),
    [
        ("splinter", False),
        ("electra", False),
        ("albert", False),
        ("mixtral", True),
        ("gemma3_text", True),
        ("olmo2", True),
    ],
)
def test_recorded_attention_is_eager_attention(architecture, causal, model, saved):
    layers = model(architecture).record(TOKENS)
    assert [layer.layer for layer in layers] == [1, 2] and {layer.causal for layer in layers} == {causal}
    for layer, weights in zip(layers, eager(saved(architecture)), strict=True):
        found = [layer.attention(head) for head in range(4)]
        np.testing.assert_allclose(found, weights[0], rtol=0, atol=1e-5)  # some norms are rounded there
        assert causal or layer.attention(0)[0].min() > 0, "the first query sees all keys"
    assert model(architecture).check(TOKENS) < 1e-12


def test_layers_are_numbered_as_the_model_numbers_them(model):
    """The first layer of this hybrid is a convolution."""
    found = model("lfm2")
    assert [layer.layer for layer in found.record(TOKENS)] == [2] and found.check(TOKENS) < 1e-12


STREAM_NORMS = {
    "bert": ["embeddings.LayerNorm"]
    + [f"encoder.layer.{n}.{part}.LayerNorm" for n in (0, 1) for part in ("attention.output", "output")],
    "albert": [
        f"encoder.albert_layer_groups.0.albert_layers.0.{name}"
        for name in ("attention.LayerNorm", "full_layer_layer_norm")
    ],
    "electra": [
        f"encoder.layer.{n}.{part}.LayerNorm" for n in (0, 1) for part in ("attention.output", "output")
    ],
    "gemma3_text": [
        *(f"layers.{n}.{name}_layernorm" for n in (0, 1) for name in ("input", "pre_feedforward")),
        "norm",
    ],
    "olmo2": ["norm"],
    "olmoe": [
        *(f"layers.{n}.{name}_layernorm" for n in (0, 1) for name in ("input", "post_attention")),
        "norm",
    ],
}
STREAM_NORMS["minimax_m2"] = STREAM_NORMS["mixtral"] = STREAM_NORMS["olmoe"]


@pytest.mark.parametrize("architecture", STREAM_NORMS)
def test_norms_of_the_stream_are_those_whose_input_is_the_running_sum(architecture, model):
    """Norms of branches, of queries and keys over all heads, and of embeddings of another width stay as they are."""
    found = model(architecture)
    found.record(TOKENS)
    names = {name for name, module in found.network.named_modules() if module in found.stream_norms}
    assert names == {*STREAM_NORMS[architecture]}
    changed = []
    found.record(TOKENS, lambda norm, x: changed.append(x.shape) or norm(x))
    calls = 2 if architecture == "albert" else 1
    assert changed == [(1, 10, 24)] * len(names) * calls
    assert set(projected.ones_shares(found, {0: TOKENS}).norm_name) == names
    assert not projected.shifts(found, {0: TOKENS}).isna().any(axis=None)


def test_the_control_of_a_model_with_norms_of_branches_moves_its_stream_norms_alone(saved, model):
    """Written out with hooks on the norms of Gemma 3 that read the stream, whose gains are stored less 1."""
    direction = projected.random_direction(24, 0)
    network = AutoModel.from_pretrained(
        saved("gemma3_text"), dtype=torch.float64, attn_implementation="eager"
    ).eval()

    def moved(module, inputs, _):
        x = inputs[0] - inputs[0].mean(-1, keepdim=True) * torch.from_numpy(direction)
        return (1 + module.weight) * x / (x.square().mean(-1, keepdim=True) + module.eps).sqrt()

    for name in STREAM_NORMS["gemma3_text"]:
        network.get_submodule(name).register_forward_hook(moved)
    with torch.no_grad():
        expected = network(torch.tensor([TOKENS]), output_attentions=True).attentions[1][0]
    usual = eager(saved("gemma3_text"))[1][0]
    shifts = projected.shifts(model("gemma3_text"), {0: TOKENS}).query("layer == 2").random_direction
    np.testing.assert_allclose(shifts, (usual - expected).abs().sum(-1).mean(-1) / 2, atol=1e-5)


def test_a_model_that_numbers_positions_from_an_offset_reads_fewer_tokens(model):
    found = model("roberta")
    assert found.longest == 62 and len(found.record([5] * 62)) == 2
    with pytest.raises(ValueError, match="63 tokens: expected at most 62"):
        found.record([5] * 63)


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        ("mamba", r"^mamba, a model without attention"),
        ("gpt_oss", r"^gpt_oss: GptOssAttention has s_aux: expected attention that is a softmax"),
        ("mpt", r"^mpt, a model without attention that goes through AttentionInterface"),
        ("diffllama", r"^diffllama"),
    ],
)
def test_other_attention_is_refused_by_name(architecture, says, model):
    with pytest.raises(ValueError, match=says) as refused:
        model(architecture).check(TOKENS)
    assert "\n" not in str(refused.value)


def test_a_difference_from_eager_attention_is_refused_with_its_place_and_size(model, monkeypatch):
    found, record = model("llama"), recording._recorded

    def off(calls, *arguments):
        layer = record(calls, *arguments)
        return (
            replace(layer, queries=layer.queries * [[[1]], [[1]], [[1 + 1e-4]], [[1]]])
            if calls.layers
            else layer
        )

    monkeypatch.setattr(recording, "_recorded", off)
    with pytest.raises(
        ValueError, match=r"^llama, layer 2, head 2: attention weights are off by \d.*e-0\d: expected"
    ):
        found.check(TOKENS)


def test_layers_are_as_many_as_the_model_has_and_each_calls_attention_once(model):
    found = model("llama")
    found.network.config.num_hidden_layers = 3
    with pytest.raises(
        ValueError, match=r"^llama, attention of layers 1, 2 was recorded: expected layers 1, 2, 3"
    ):
        found.record(TOKENS)
    found.network.config.num_hidden_layers = 2
    attention = found.network.layers[1].self_attn
    once = attention.forward
    attention.forward = lambda *given, **named: (once(*given, **named), once(*given, **named))[1]
    with pytest.raises(ValueError, match=r"^llama: LlamaAttention calls attention more than once"):
        found.record(TOKENS)


def test_what_transformers_raises_is_one_line(model):
    found = model("llama")

    def fails(*_):
        raise RuntimeError("no kernel\nfor this")

    found.network.layers[1].mlp.register_forward_pre_hook(fails)
    with pytest.raises(
        ValueError, match=r"^llama: LlamaModel raises RuntimeError \(no kernel\): expected a model"
    ):
        found.record(TOKENS)


def test_shards_may_be_of_different_types(tmp_path, model):
    random_network("llama").save_pretrained(tmp_path, max_shard_size="12KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    tensors = {name: values.bfloat16() for name, values in load_file(shards[0]).items()}
    save_file(tensors, shards[0], {"format": "pt"})
    read = dict(recording.load(files_at(tmp_path, "path")).network.named_parameters())
    for name, values in {**tensors, **load_file(shards[1])}.items():
        assert torch.equal(read[name], values.double()), name


def test_norms_are_checked_in_float64_where_transformers_has_float32(model):
    layer = model("llama").record(TOKENS)[1]
    exact = LearnedNorm("rmsnorm", layer.norm.gain, layer.norm.bias, layer.norm.eps)(layer.before_norm)
    np.testing.assert_allclose(layer.attention_input, exact, rtol=0, atol=1e-14)
