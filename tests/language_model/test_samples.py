"""Samples of a trained model: what the model's own modules receive."""

import numpy as np
import pytest
import torch
from hand_made import SMALL_GPT, contexts, measured, prepared_text, randomise, run_of, save_weights

from layernorm_roles import checkpoint

LONG = [np.random.default_rng(n).integers(30, size=n) for n in (12, 7, 16)]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """A network, and tensors and facts of its samples: of two contexts."""
    folder = tmp_path_factory.mktemp("sampled")
    frame = contexts(("sentences", [1, 2, 3]), *(("long", tokens) for tokens in LONG))
    run = run_of(prepared_text(folder / "text", range(30), range(30), frame))
    network = randomise(run.build_model())
    weights = save_weights(run, folder, initial=run.build_model(), final=network)
    tensors, facts = checkpoint.load(measured([run], weights, folder, "samples")["samples"])
    assert facts["runs"] == [{"name": run.name, "variant": "layernorm", "seed": 0, "layers": 2}]
    assert len(tensors) == 2 * 7
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float64}
    return network.double(), {name.removeprefix(f"{run.name}/"): tensor for name, tensor in tensors.items()}


def inputs_of(network, module, texts):
    """What `module` receives when the network reads the texts, one after another."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0][0]))
    with torch.no_grad():
        for tokens in texts:
            network(torch.tensor(tokens)[None])
    handle.remove()
    return torch.cat(seen)


def test_blocks_are_what_the_modules_of_the_model_receive(sampled):
    network, tensors = sampled
    for number, layer in enumerate(network.layers, start=1):
        names = ("stream", "heads", "w_o", "b_o", "gain", "bias", "w_1")
        block = {name: tensors[f"layer_{number}.{name}"] for name in names}
        torch.testing.assert_close(block["stream"], inputs_of(network, layer.norm, LONG[:2]))
        torch.testing.assert_close(block["heads"], inputs_of(network, layer.attention.out, LONG[:2]))
        after_attention = block["stream"] + block["heads"] @ block["w_o"] + block["b_o"]
        torch.testing.assert_close(after_attention, inputs_of(network, layer.ln_2, LONG[:2]))
        x = after_attention - after_attention.mean(dim=1, keepdim=True)
        normed = x / (x.square().mean(dim=1, keepdim=True) + SMALL_GPT.eps).sqrt()
        up = (normed * block["gain"] + block["bias"]) @ block["w_1"] + layer.feed_forward[0].bias
        torch.testing.assert_close(up, inputs_of(network, layer.feed_forward[1], LONG[:2]))
