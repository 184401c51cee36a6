"""When the numbers of two devices agree: the loss counts whatever the gradients are, on a scale of its own size."""

import pytest
import torch

from layernorm_roles.gpu.agreement import TOLERANCE, Derivatives, difference

GRADIENTS = {"weight": torch.tensor([3.0, 4.0])}


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("apart", "agrees"), [(0.5, True), (5.0, False), (float("nan"), False)])
def test_losses_agree_within_the_tolerance_of_their_size(size, apart, agrees):
    other = size * (1 + apart * TOLERANCE)
    found = difference(Derivatives(size, GRADIENTS), Derivatives(other, GRADIENTS))
    assert (found is None) == agrees
    assert agrees or found.startswith("the loss is ")
