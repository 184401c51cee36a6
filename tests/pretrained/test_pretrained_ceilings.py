"""The table of ceilings of a pretrained model, against the recorded attention itself."""

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel

from layernorm_roles.heads import ceilings
from layernorm_roles.heads.keys import keys_without_norm
from layernorm_roles.schemas import AS_USED, WITHOUT_NORM
from layernorm_roles.selectability.ceilings import ceilings as of_keys


def table_of(network, tokens):
    return pd.concat([ceilings.pairs(layer, [AS_USED, WITHOUT_NORM]) for layer in network.record(tokens)])


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama", "qwen3"])
def test_no_key_receives_more_than_its_ceiling(architecture, model, saved):
    """The attention is transformers' own, of its last query, which sees all keys in a causal model, too."""
    tokens = np.random.default_rng(2).permutation(60)[:48].tolist()
    table = table_of(model(architecture), tokens)
    eager = AutoModel.from_pretrained(saved(architecture), dtype=torch.float64, attn_implementation="eager")
    with torch.no_grad():
        weights = eager.eval()(torch.tensor([tokens]), output_attentions=True).attentions
    place = ["layer", "head", "position"]
    used = table[table.normalised == AS_USED].pivot(index=place, columns="queries", values="upper")
    for number, of_layer in enumerate(weights, start=1):
        causal = not of_layer[0].triu(1).any()
        for head, of_head in enumerate(of_layer[0].numpy()):
            for queries in used:
                upper = used.loc[(number, head), queries].to_numpy()
                given = of_head[-1] if causal else of_head.max(axis=0)
                assert (given <= upper + 1e-6).all(), (number, head, queries)
            rows = table[(table.layer == number) & (table["head"] == head) & (table.queries == "any")]
            got = rows[rows.normalised == AS_USED].received_max
            np.testing.assert_allclose(got, of_head.max(axis=0), atol=1e-6)
    assert set(used) == ({"any"} if architecture in ("llama", "qwen3") else {"any", "norm"})
    if "norm" in used:
        assert (used["norm"] <= used["any"] + 1e-9).all(), "fewer queries cannot do more"


def test_query_heads_share_key_heads_in_blocks(model):
    """Four query heads share two key heads, all of which differ."""
    tokens = np.random.default_rng(2).permutation(60)[:48].tolist()
    network = model("llama")
    table = table_of(network, tokens)
    for layer in network.record(tokens):
        for kind, keys in ((AS_USED, layer.keys), (WITHOUT_NORM, keys_without_norm(layer))):
            uppers = [of_keys(matrix).upper for matrix in keys]
            assert abs(uppers[0] - uppers[1]).max() > 0.1
            for head, key_head in enumerate((0, 0, 1, 1)):
                rows = table[(table.layer == layer.layer) & (table["head"] == head)]
                rows = rows[(rows.normalised == kind) & (rows.queries == "any")]
                np.testing.assert_allclose(rows.upper, uppers[key_head])
