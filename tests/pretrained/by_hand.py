"""BERT, GPT-2 and Llama written down from their papers, in numpy: a second method for what is recorded."""

import math
from typing import NamedTuple

import numpy as np
import torch

erf = np.vectorize(math.erf)


class Layer(NamedTuple):
    """What a layer's attention sees."""

    stream: np.ndarray
    attention_input: np.ndarray
    queries: np.ndarray
    keys: np.ndarray


def layernorm(x, gain, bias, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return gain * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) + bias


def rmsnorm(x, gain, eps):
    return gain * x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)


def split(x, heads):
    """(n, heads * d_head) to (heads, n, d_head)."""
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def attend(queries, keys, values, causal):
    groups = len(queries) // len(keys)
    keys, values = np.repeat(keys, groups, axis=0), np.repeat(values, groups, axis=0)
    scores = queries @ keys.swapaxes(1, 2) / np.sqrt(queries.shape[-1])
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = weights / weights.sum(axis=-1, keepdims=True) @ values
    return out.swapaxes(0, 1).reshape(out.shape[1], -1)


def bert(w, config, tokens):
    """The layers of BERT (Devlin et al. 2019) on one context of segment 0."""
    eps, heads = config.layer_norm_eps, config.num_attention_heads

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        return layernorm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)

    e = "embeddings."
    stream = w[e + "word_embeddings.weight"][tokens] + w[e + "token_type_embeddings.weight"][0]
    stream = stream + w[e + "position_embeddings.weight"][: len(tokens)]
    x, layers = norm(stream, e + "LayerNorm"), []
    for i in range(config.num_hidden_layers):
        at = f"encoder.layer.{i}."
        q, k, v = (split(linear(x, f"{at}attention.self.{n}"), heads) for n in ("query", "key", "value"))
        layers.append(Layer(stream, x, q, k))
        out = linear(attend(q, k, v, causal=False), at + "attention.output.dense")
        middle = norm(x + out, at + "attention.output.LayerNorm")
        hidden = linear(middle, at + "intermediate.dense")
        hidden = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
        stream = middle + linear(hidden, at + "output.dense")
        x = norm(stream, at + "output.LayerNorm")
    return layers


def gpt2(w, config, tokens):
    """The layers of GPT-2 (Radford et al. 2019) on one context."""
    eps, heads = config.layer_norm_epsilon, config.n_head

    def linear(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def norm(x, name):
        return layernorm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)

    stream, layers = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)], []
    for i in range(config.n_layer):
        at = f"h.{i}."
        x = norm(stream, at + "ln_1")
        q, k, v = (split(part, heads) for part in np.split(linear(x, at + "attn.c_attn"), 3, axis=1))
        layers.append(Layer(stream, x, q, k))
        stream = stream + linear(attend(q, k, v, causal=True), at + "attn.c_proj")
        hidden = linear(norm(stream, at + "ln_2"), at + "mlp.c_fc")
        hidden = hidden * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3))) / 2
        stream = stream + linear(hidden, at + "mlp.c_proj")
    return layers


def rotate(x, cos, sin):
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def llama(w, config, tokens):
    """The layers of Llama (Touvron et al. 2023) on one context; angles in float32, as transformers has them."""
    eps, heads, groups = config.rms_norm_eps, config.num_attention_heads, config.num_key_value_heads
    d_head = config.hidden_size // heads
    frequencies = 1 / 10000.0 ** (torch.arange(0, d_head, 2).float() / d_head)
    angles = torch.arange(len(tokens)).float()[:, None] * frequencies
    cos, sin = angles.cos().double().numpy(), angles.sin().double().numpy()
    stream, layers = w["embed_tokens.weight"][tokens], []
    for i in range(config.num_hidden_layers):
        at = f"layers.{i}."
        x = rmsnorm(stream, w[at + "input_layernorm.weight"], eps)
        q, k, v = (
            split(x @ w[f"{at}self_attn.{n}_proj.weight"].T, count)
            for n, count in (("q", heads), ("k", groups), ("v", groups))
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        layers.append(Layer(stream, x, q, k))
        stream = stream + attend(q, k, v, causal=True) @ w[at + "self_attn.o_proj.weight"].T
        x = rmsnorm(stream, w[at + "post_attention_layernorm.weight"], eps)
        gate, up = (x @ w[f"{at}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        stream = stream + (gate / (1 + np.exp(-gate)) * up) @ w[at + "mlp.down_proj.weight"].T
    return layers
