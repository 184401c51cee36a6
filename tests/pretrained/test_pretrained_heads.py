"""Keys and ceilings of a pretrained model's heads, against `certify`, `ceilings` and the recorded attention itself."""

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel

from layernorm_roles.heads import ceilings, keys
from layernorm_roles.schemas import AS_USED, WITHOUT_NORM
from layernorm_roles.selectability.ceilings import ceilings as of_keys

TOKENS = np.random.default_rng(2).permutation(60)[:48].tolist()


def pairs_of(network):
    return pd.concat([ceilings.pairs(layer, [AS_USED, WITHOUT_NORM]) for layer in network.record(TOKENS)])


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama", "qwen3"])
def test_no_key_receives_more_than_its_ceiling(architecture, model, saved):
    """The attention is transformers' own, of its last query, which sees all keys in a causal model, too."""
    table = pairs_of(model(architecture))
    eager = AutoModel.from_pretrained(saved(architecture), dtype=torch.float64, attn_implementation="eager")
    with torch.no_grad():
        weights = eager.eval()(torch.tensor([TOKENS]), output_attentions=True).attentions
    place = ["layer", "head", "position"]
    used = table[table.normalised == AS_USED]
    received = used[used.queries == "any"].set_index(place).received_max
    upper = used.pivot(index=place, columns="queries", values="upper")
    for number, of_layer in enumerate(weights, start=1):
        causal = not of_layer[0].triu(1).any()
        for head, of_head in enumerate(of_layer[0].numpy()):
            given = of_head[-1] if causal else of_head.max(axis=0)
            assert (given[:, None] <= upper.loc[(number, head)] + 1e-6).all(axis=None), (number, head)
            np.testing.assert_allclose(received.loc[(number, head)], of_head.max(axis=0), atol=1e-6)
    assert set(upper) == ({"any"} if architecture in ("llama", "qwen3") else {"any", "norm"})
    assert "norm" not in upper or (upper["norm"] <= upper["any"] + 1e-9).all(), "fewer queries cannot do more"


def test_query_heads_share_key_heads_in_blocks(model):
    """Four query heads share two key heads, all of which differ."""
    network = model("llama")
    rows = pairs_of(network).query("queries == 'any'").set_index(["layer", "normalised", "head"]).upper
    for layer in network.record(TOKENS):
        for kind, stack in ((AS_USED, layer.keys), (WITHOUT_NORM, keys.keys_without_norm(layer))):
            uppers = [of_keys(matrix).upper for matrix in stack]
            assert abs(uppers[0] - uppers[1]).max() > 0.1
            for head, key_head in enumerate((0, 0, 1, 1)):
                np.testing.assert_allclose(rows.loc[layer.layer, kind, head], uppers[key_head])


def test_heads_are_cut_to_where_their_keys_differ_most():
    """Each head by the eigenvectors of its own covariance, whatever the mean of its keys."""
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((3, 50, 7)) * np.arange(1, 8) @ rng.standard_normal((7, 7)) + 100
    for matrix, left in zip(heads, keys.cut(heads, 3), strict=True):
        _, directions = np.linalg.eigh(np.cov(matrix.T))
        known = (matrix - matrix.mean(axis=0)) @ directions[:, :-4:-1]
        np.testing.assert_allclose(abs(left), abs(known), atol=1e-8)


def unexplained(stream, found):
    """What the best affine map from the stream leaves of the keys, relative to their size."""
    given = np.column_stack([stream, np.ones(len(stream))])
    return np.linalg.norm(found - given @ np.linalg.lstsq(given, found, rcond=None)[0]) / np.linalg.norm(
        found
    )


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama"])
def test_keys_without_the_norm_are_affine_in_the_stream(architecture, model):
    """And those that they are where every vector of the stream has one length: one factor does what the norm does."""
    for layer in model(architecture).record(TOKENS):
        rotation, without = layer.key_projection.rotation, keys.keys_without_norm(layer)
        # Turned back, since the rotary embedding differs between positions; float32 cosines turn back to 1e-7 only.
        back = type(rotation)(rotation.cos, -rotation.sin) if rotation else lambda x: x
        for used, free in zip(back(layer.keys), back(without), strict=True):
            assert unexplained(layer.before_norm, free) < 1e-6 < 1e-2 < unexplained(layer.before_norm, used)
        if architecture == "bert":  # whose eps is next to nothing
            on_sphere = layer.norm.standardised(layer.before_norm) * 3.7
            same = type(layer)(**{**vars(layer), "before_norm": on_sphere})
            np.testing.assert_allclose(keys.keys_without_norm(same), layer.keys, atol=1e-9)
