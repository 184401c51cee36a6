"""Models in GGUF files: the numbers are those of the model in safetensors, the tokens those of the file's tokenizer."""

import hashlib
import importlib.util

import numpy as np
import pytest
from random_models import VOCABULARY
from safetensors.numpy import load_file
from transformers import AutoConfig
from transformers.convert_slow_tokenizer import bytes_to_unicode

from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.contexts import tokens_of
from layernorm_roles.pretrained.source import files_at

LETTERS = [letter for letter in bytes_to_unicode().values() if letter.isascii()][: VOCABULARY - 1]
"""Bytes, as a byte-level tokenizer spells them."""
PAIR = f"{LETTERS[3]} {LETTERS[4]}"
"""The only two tokens that are merged to one."""


def by_pairs(weights, heads):
    """Rows of W_Q or W_K in the order of GGUF: the two that a rotation turns together stand side by side."""
    halves = weights.reshape(heads, 2, -1, weights.shape[1])
    return np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(weights.shape)


def write_llama(folder, path, more_numbers=(), more_tensors=()):
    """Write the Llama that transformers saved in `folder` to a GGUF file, in float32, with a tokenizer.

    The other arguments are further metadata and tensors.
    """
    from gguf import MODEL_ARCH, GGUFWriter, get_tensor_name_map

    config, writer = AutoConfig.from_pretrained(folder), GGUFWriter(path, "llama")
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    numbers = {"block_count": config.num_hidden_layers, "context_length": config.max_position_embeddings}
    numbers |= {"embedding_length": config.hidden_size, "feed_forward_length": config.intermediate_size}
    numbers |= {"head_count": config.num_attention_heads, "head_count_kv": config.num_key_value_heads}
    numbers |= {"layer_norm_rms_eps": config.rms_norm_eps, "rope_dimension_count": config.head_dim}
    numbers |= {"rope_freq_base": config.rope_parameters["rope_theta"], "tokenizer_model": "gpt2"}
    numbers |= {"token_list": [*LETTERS, PAIR.replace(" ", "")], "token_merges": [PAIR]}
    for name, value in numbers.items():
        getattr(writer, f"add_{name}")(value)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weights in load_file(folder / "model.safetensors").items():
        module, kind = name.removesuffix(".weight"), name.split(".")[-2]  # layers.1.self_attn.q_proj.weight
        weights = by_pairs(weights, heads[kind]) if kind in heads else weights
        writer.add_tensor(f"{names.get_name(module)}.weight", np.ascontiguousarray(weights, np.float32))
    for name, value in dict(more_numbers).items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(name, value)
    for name, values in dict(more_tensors).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def llama(saved, tmp_path_factory):
    """A GGUF file of the random Llama, alone in its folder."""
    pytest.importorskip("gguf", reason="the extra [gguf] is not installed")
    pytest.importorskip("accelerate", reason="the extra [gguf] is not installed")
    path = tmp_path_factory.mktemp("gguf") / "llama.gguf"
    write_llama(saved("llama"), path)
    return files_at(path, "path")


def test_a_gguf_file_gives_the_numbers_of_the_model_in_safetensors(llama, model, capsys):
    found = recording.load(llama)
    assert capsys.readouterr().err == "", "the loader's bar is not drawn among the lines of other jobs"
    assert found.longest == 64
    tokens = [3, 1, 41, 59, 2, 6, 53, 5, 8, 9]
    for ours, theirs in zip(found.record(tokens), model("llama").record(tokens), strict=True):
        for name in ("queries", "keys", "attention_input", "before_norm"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-12)
        assert ours.causal and ours.scaling == theirs.scaling and ours.norm.kind == "rmsnorm"


def test_the_tokenizer_of_a_gguf_file_is_read(llama):
    tokens = tokens_of(llama)
    text = "".join(LETTERS[k] for k in (7, 3, 4, 2, 4))
    assert tokens.encode(text, 128) == [7, VOCABULARY - 1, 2, 4]
    assert tokens.encode(text, 2) == [7, VOCABULARY - 1]
    assert [tokens.spell(token) for token in (7, VOCABULARY - 1)] == [text[0], text[1:3]]


def pretend(monkeypatch, *installed):
    """Let Python find those packages that are named alone."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)


def test_a_gguf_file_is_the_weights(tmp_path, monkeypatch):
    pretend(monkeypatch, "gguf", "accelerate")
    (tmp_path / "model.Q4.gguf").write_bytes(b"GGUF")
    files = files_at(tmp_path / "model.Q4.gguf", "path")
    assert (files.gguf, files.folder) == ("model.Q4.gguf", tmp_path)
    assert files.sha256() == hashlib.sha256(b"GGUF").hexdigest()


@pytest.mark.parametrize(("installed", "missing"), [(["accelerate"], "gguf"), ([], "gguf and accelerate")])
def test_without_the_extra_the_command_that_installs_it_is_said(installed, missing, tmp_path, monkeypatch):
    pretend(monkeypatch, *installed)
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    said = rf"^pretrained\.m\.path = 'm': .* without {missing} in .*try: pip install .*\[gguf\]'$"
    with pytest.raises(ValueError, match=said):
        files_at(tmp_path / "m.gguf", "pretrained.m.path = 'm'")


@pytest.mark.parametrize(
    ("numbers", "tensors", "says"),
    [
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            {},
            r"llama.rope.scaling.type = 'linear'",
        ),
        ({"llama.rope.scaling.type": "yarn"}, {}, r"llama.rope.scaling.type = 'yarn'"),
        ({"llama.rope.scaling.factor": 4.0}, {}, r"llama.rope.scaling.factor = 4.0"),
        ({"llama.attention.scale": 0.5}, {}, r"llama.attention.scale = 0.5"),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 1.0}, {}, None),
        ({}, {"rope_freqs.weight": np.full(3, 2.0, np.float32)}, r"rope_freqs.weight"),
        (
            {},
            {"blk.1.attn_k.bias": np.ones(12, np.float32)},
            r"blk.1.attn_k.bias: expected weights that are all read",
        ),
    ],
)
def test_what_transformers_leaves_out_of_a_gguf_file_is_refused(
    numbers, tensors, says, llama, saved, tmp_path
):
    """Rotary scaling and factors of frequencies, which change all scores, and biases."""
    path = tmp_path / "llama.gguf"
    write_llama(saved("llama"), path, numbers, tensors)
    if says is None:
        assert len(recording.load(files_at(path, "path")).record([3, 1, 4])) == 2
        return
    with pytest.raises(ValueError, match=rf"llama\.gguf: {says}"):
        recording.load(files_at(path, "path"))
