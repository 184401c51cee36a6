"""The count-level model against torch.nn.TransformerEncoderLayer on tokens."""

import numpy as np
import pytest
import torch
from default_settings import example
from oracle import loss_and_correct

from layernorm_roles.majority import data
from layernorm_roles.majority.gradients import compiled_gradient, compiled_loss, flatten
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


def by_autograd(model, flat):
    def set_gradient(counts, label):
        flat.grad.zero_()
        loss, _ = pair_loss(model.loss_parameters(), counts, label)
        loss.backward()
        return loss.detach()

    return set_gradient


@pytest.mark.parametrize("sharpened", [1.0, 4.0], ids=["initial", "sharp attention"])
@pytest.mark.parametrize("variant", [*SOFT, "examples.dynamic_tanh:DynamicTanh"])
def test_loss_and_every_gradient_equal_the_token_level_models(variant, sharpened, batch):
    torch.manual_seed(1)
    model = MajorityTransformer(20, 8, 8, variant).double()
    with torch.no_grad():
        # Without scaling scores are large as they are.
        most = 2.0 if variant in ("none", "projection") else sharpened
        model.layer.self_attn.in_proj_weight.mul_(min(sharpened, most))
        model.layer.norm2.bias.normal_()
        for parameter in model.norm_parameters():
            parameter += torch.randn_like(parameter) / 2
    parameters = dict(model.named_parameters())
    expected, right = loss_and_correct(model, *batch)
    expected_gradients = torch.autograd.grad(expected, list(parameters.values()))
    for gradient, loss_of in ((by_autograd, pair_loss), (compiled_gradient, compiled_loss)):
        set_gradient = gradient(model, flatten(model))
        for _ in range(2):  # set, not added to
            loss = set_gradient(*batch)
        with torch.no_grad():
            alone, our_right = loss_of(model.loss_parameters(), *batch)
        assert our_right == right
        assert max(abs(loss - expected), abs(alone - expected)) <= 1e-10 * expected
        for (name, ours), theirs in zip(parameters.items(), expected_gradients, strict=True):
            assert (ours.grad - theirs).norm() <= 1e-10 * theirs.norm(), name


def test_parameters_and_their_initialisation_are_torchs_and_the_same_for_every_variant():
    torch.manual_seed(7)
    expected = {"embedding.weight": torch.nn.Embedding(20, 8).weight}
    layer = torch.nn.TransformerEncoderLayer(8, 1, 8).state_dict()
    for variant in BUILT_IN:
        torch.manual_seed(7)
        state = MajorityTransformer(20, 8, 8, variant).state_dict()
        for name in ("weight", "bias"):
            state.pop(f"layer.norm1.{name}", None)
        assert sum(value.numel() for value in state.values()) == 584
        for name, value in state.items():
            known = expected[name] if name in expected else layer[name.removeprefix("layer.")]
            assert torch.equal(value, known), name


def test_no_eps_is_added_before_attention():
    model = MajorityTransformer(20, 8, 8, "layernorm")
    known = model.normed()[0]
    model.embedding.weight.data.mul_(1e-3)
    torch.testing.assert_close(model.normed()[0], known)
