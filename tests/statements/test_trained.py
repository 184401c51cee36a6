import json

import numpy as np
import pytest
import torch

from layernorm_roles import checkpoint
from layernorm_roles.language_model import model as language_model
from layernorm_roles.statements import fusion, score_scale, trained

SETTINGS = {
    "layers": 2,
    "dim": 8,
    "heads": 4,
    "context": 12,
    "eps": 1e-5,
    "query_key_eps": 1e-6,
    "dropout": 0.1,
    "attention_dropout": 0.0,
}


@pytest.fixture
def weights(tmp_path):
    network = language_model.build(SETTINGS, "layernorm", "layernorm", vocabulary=30, seed=0)
    with torch.no_grad():
        for parameter in network.parameters():  # away from the initial gains and biases
            parameter += 0.3 * torch.randn_like(parameter)
    identity = {"variant": "layernorm", "norm": "layernorm", "seed": 0, "settings": SETTINGS}
    checkpoint.save(network.state_dict(), tmp_path / "final.safetensors", {"identity": identity})
    return tmp_path / "final.safetensors"


def test_blocks_are_what_the_models_feed_forward_part_receives(weights):
    contexts = [torch.randint(0, 30, (1, n), generator=torch.Generator().manual_seed(n)) for n in (12, 7)]
    network, about = trained.load(weights)
    assert about == {"source": "language_model", "variant": "layernorm", "seed": 0}
    seen = []
    for layer in network.layers:
        layer.feed_forward[0].register_forward_hook(lambda module, x, y: seen.append((y - module.bias)[0]))
    with torch.no_grad():
        for tokens in contexts:
            network(tokens)
    for number, block in enumerate(trained.blocks(weights, contexts)):
        theirs = torch.cat([seen[number], seen[number + len(network.layers)]]).numpy()
        ours = fusion.before_nonlinearity(block, "residual_norm")
        assert np.allclose(ours, theirs, rtol=1e-3, atol=1e-3)  # the model has an eps, the block has none


def test_heads_attend_as_the_model_does(weights):
    tokens = torch.randint(0, 30, (1, 12), generator=torch.Generator().manual_seed(0))
    heads = list(trained.language_model_heads(weights, [tokens]))
    assert len(heads) == SETTINGS["layers"] * SETTINGS["heads"]
    assert {(head.about["layer"], head.about["head"]) for head in heads} == {
        (layer, head) for layer in (1, 2) for head in range(4)
    }
    network, _ = trained.load(weights)
    with torch.no_grad():
        x = network.embed(tokens)
        q, k, _ = network.layers[0].attention.split(network.layers[0].norm(x))
    p = (q @ k.mT / 2**0.5).masked_fill(torch.ones(12, 12).triu(1).bool(), -torch.inf).softmax(-1)
    entropy = torch.special.entr(p).sum(-1)[0, 2, 1:].mean()  # head 2; the first query has one key
    assert score_scale.statistics(heads[2], divided=True)["entropy"] == pytest.approx(entropy.item())


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path):
    (tmp_path / "x.safetensors").write_text(json.dumps({}))
    with pytest.raises(ValueError, match=r"x\.safetensors"):
        trained.load(tmp_path / "x.safetensors")
