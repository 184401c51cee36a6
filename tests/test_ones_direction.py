"""The share along the ones vector, of vectors and networks whose shares are known."""

import numpy as np
import pytest
import torch
from torch import nn

from layernorm_roles import norms, ones_direction


def test_each_norm_has_the_mean_share_of_what_enters_it():
    """Two norms of different sizes; the second runs twice, and a linear layer that is no norm has no row."""
    layers = {"first": nn.LayerNorm(4), "map": nn.Linear(4, 6), "second": norms.build("scale", 6)}
    network = nn.ModuleDict(layers | {"unused": nn.RMSNorm(3)})
    x, y = torch.tensor([[[1.0, 1, 1, 1], [1, -1, 1, -1]]]), torch.ones(1, 1, 6)

    def run():
        network["second"](network["map"](network["first"](x)))
        network["second"](y)

    table = ones_direction.table(network, run)
    assert table.norm_name.to_list() == ["first", "second"] and table.norm.to_list() == [1, 2]
    assert table.dimensions.to_list() == [4, 6]
    mapped = ones_direction.share(network["map"](network["first"](x))).detach().flatten().tolist()
    assert table.ones_share.to_list() == pytest.approx([0.5, np.mean([*mapped, 1])])
