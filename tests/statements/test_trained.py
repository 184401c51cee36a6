"""Files of activations, set by hand, come back as blocks and heads with their run, layer and head."""

import numpy as np
import pytest
import torch

from layernorm_roles import checkpoint
from layernorm_roles.statements import fusion, score_scale

LAYERS, HEADS, CONTEXTS = 2, 3, 2
SHAPES = {"stream": (5, 4), "heads": (5, 6), "w_o": (6, 4), "w_1": (4, 7)}
SHAPES |= dict.fromkeys(("b_o", "gain", "bias"), (4,))


@pytest.fixture
def activations(tmp_path):
    """A file in which every tensor is filled with a number of its own."""
    tensors, number = {}, 0.0
    for layer in range(1, LAYERS + 1):
        for name, shape in SHAPES.items():
            number += 1
            tensors[f"layer_{layer}.{name}"] = torch.full(shape, number, dtype=torch.float64)
        for context in range(CONTEXTS):
            for kind in ("queries", "keys"):
                heads = torch.arange(HEADS, dtype=torch.float64)[:, None, None] / 10
                number += 1
                tensors[f"layer_{layer}.context_{context}.{kind}"] = heads.expand(HEADS, 5, 2) + number
    facts = {"variant": "layernorm", "seed": 3, "layers": LAYERS, "heads": HEADS, "contexts": CONTEXTS}
    checkpoint.save(tensors, tmp_path / "activations.safetensors", facts)
    return tmp_path / "activations.safetensors", tensors


def test_blocks_are_those_of_the_file_layer_by_layer(activations):
    path, tensors = activations
    found = list(fusion.trained_blocks(path))
    assert [block.columns["layer"] for block in found] == [1, 2]
    for layer, block in enumerate(found, start=1):
        assert (block.columns["source"], block.columns["variant"]) == ("language_model", "layernorm")
        assert (block.columns["seed"], block.columns["layer"]) == (3, layer)
        for name in SHAPES:
            np.testing.assert_array_equal(getattr(block, name), tensors[f"layer_{layer}.{name}"].numpy())


def test_heads_are_those_of_the_file_and_none_is_skipped(activations):
    path, tensors = activations
    found = list(score_scale.language_model_heads(path))
    places = [(context, layer, head) for context in range(2) for layer in (1, 2) for head in range(3)]
    assert len(found) == len(places)
    for (context, layer, head), one in zip(places, found, strict=True):
        assert (one.columns["layer"], one.columns["head"], one.causal) == (layer, head, True)
        for kind in ("queries", "keys"):
            expected = tensors[f"layer_{layer}.context_{context}.{kind}"][head].numpy()
            np.testing.assert_array_equal(getattr(one, kind), expected)
