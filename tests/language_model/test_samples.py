"""Samples of a trained model: what the model's own modules receive, of the first two long contexts."""

import numpy as np
import torch
from hand_made import SMALL_GPT, contexts, measured, prepared_text, randomise, run_of, save_weights

from layernorm_roles import checkpoint

LONG = [np.random.default_rng(n).integers(30, size=n) for n in (12, 7, 16)]


def inputs_of(network, module):
    """What `module` receives when the network reads the two texts, one after the other."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0][0]))
    with torch.no_grad():
        for tokens in LONG[:2]:
            network(torch.tensor(tokens)[None])
    handle.remove()
    return torch.cat(seen)


def test_blocks_are_what_the_modules_of_the_model_receive(tmp_path):
    frame = contexts(("sentences", [1, 2, 3]), *(("long", tokens) for tokens in LONG))
    run = run_of(prepared_text(tmp_path / "text", range(30), range(30), frame))
    network = randomise(run.build_model())
    weights = save_weights(run, tmp_path, initial=run.build_model(), final=network)
    tensors, facts = checkpoint.load(measured([run], weights, tmp_path, "samples")["samples"])
    assert facts["runs"] == [{"name": run.name, "variant": "layernorm", "seed": 0, "layers": 2}]
    assert len(tensors) == 2 * 7 and {tensor.dtype for tensor in tensors.values()} == {torch.float64}
    network = network.double()
    for number, layer in enumerate(network.layers, start=1):
        names = ("stream", "heads", "w_o", "b_o", "gain", "bias", "w_1")
        stream, heads, w_o, b_o, gain, bias, w_1 = (
            tensors[f"{run.name}/layer_{number}.{name}"] for name in names
        )
        after_attention = stream + heads @ w_o + b_o
        x = after_attention - after_attention.mean(dim=1, keepdim=True)
        normed = x / (x.square().mean(dim=1, keepdim=True) + SMALL_GPT.eps).sqrt()
        up = (normed * gain + bias) @ w_1 + layer.feed_forward[0].bias
        modules = layer.norm, layer.attention.out, layer.ln_2, layer.feed_forward[1]
        for found, module in zip((stream, heads, after_attention, up), modules, strict=True):
            torch.testing.assert_close(found, inputs_of(network, module))
