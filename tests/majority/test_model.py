"""The count-level model against torch.nn.TransformerEncoderLayer on tokens."""

import numpy as np
import pytest
import torch
from default_settings import example
from oracle import loss_and_correct

from layernorm_roles.majority import data
from layernorm_roles.majority.gradients import autograd_gradient, compiled_gradient, compiled_loss, flatten
from layernorm_roles.majority.model import MajorityTransformer, pair_loss
from layernorm_roles.settings.majority import MajorityExperiment
from layernorm_roles.variants import SPLIT_VARIANTS, VARIANTS

BUILT_IN = [*VARIANTS, *SPLIT_VARIANTS]
SOFT = [name for name in BUILT_IN if name != "projection_grown"]
"""The variants whose scores do not differ by hundreds before training, where `model.pair_loss` underflows."""
TASK = example(MajorityExperiment, sequences=300, labellings=10, sampling="uniform", split="rows")


@pytest.fixture(scope="module")
def batch():
    frame = data.generate(TASK, seed=0)
    return torch.from_numpy(np.stack(frame.counts)), torch.from_numpy(frame.label.to_numpy(copy=True))


def model_of(variant, d_model=8, classes=20, sharpened=1.0):
    torch.manual_seed(1)
    model = MajorityTransformer(classes, d_model, d_model, variant).double()
    with torch.no_grad():
        model.layer.self_attn.in_proj_weight.mul_(sharpened)
        model.layer.norm2.bias.normal_()
        for parameter in model.norm_parameters():
            parameter += torch.randn_like(parameter) / 2
    return model


@pytest.mark.parametrize("sharpened", [1.0, 4.0], ids=["initial", "sharp attention"])
@pytest.mark.parametrize("gradient", [autograd_gradient, compiled_gradient])
@pytest.mark.parametrize("variant", [*SOFT, "examples.dynamic_tanh:DynamicTanh"])
def test_loss_and_every_gradient_equal_the_token_level_models(variant, gradient, sharpened, batch):
    if sharpened > 1 and variant in ("none", "projection"):
        sharpened = 2.0
    model = model_of(variant, sharpened=sharpened)
    parameters = dict(model.named_parameters())
    expected, right = loss_and_correct(model, *batch)
    expected_gradients = torch.autograd.grad(expected, list(parameters.values()))
    set_gradient = gradient(model, flatten(model))
    for _ in range(2):  # set, not added to
        loss = set_gradient(*batch)
    with torch.no_grad():
        losses = [loss_of(model.loss_parameters(), *batch) for loss_of in (pair_loss, compiled_loss)]

    assert all(our_right == right for _, our_right in losses)
    for ours in (loss, *(value for value, _ in losses)):
        assert abs(ours - expected) <= 1e-10 * expected
    for (name, ours), theirs in zip(parameters.items(), expected_gradients, strict=True):
        assert (ours.grad - theirs).norm() <= 1e-10 * theirs.norm(), name


def test_parameters_and_their_initialisation_are_torchs_and_the_same_for_every_variant():
    torch.manual_seed(7)
    embedding = torch.nn.Embedding(20, 8)
    layer = torch.nn.TransformerEncoderLayer(8, 1, 8)
    for variant in BUILT_IN:
        torch.manual_seed(7)
        model = MajorityTransformer(20, 8, 8, variant)
        state = model.state_dict()
        for name in ("weight", "bias"):
            state.pop(f"layer.norm1.{name}", None)
        assert torch.equal(state.pop("embedding.weight"), embedding.weight)
        assert sum(v.numel() for v in state.values()) + 20 * 8 == 584
        for name, value in state.items():
            assert torch.equal(value, layer.state_dict()[name.removeprefix("layer.")]), name
