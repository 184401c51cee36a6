"""When the numbers of two devices agree: the loss counts whatever the gradients are, on a scale of its own size."""

import pytest
import torch

from layernorm_roles.gpu.agreement import SMALLEST_SHARE, TOLERANCE, Derivatives, difference

GRADIENTS = {"weight": torch.tensor([3.0, 4.0])}


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("apart", "agrees"), [(0.5, True), (5.0, False), (float("nan"), False)])
def test_losses_agree_within_the_tolerance_of_their_size(size, apart, agrees):
    other = size * (1 + apart * TOLERANCE)
    found = difference(Derivatives(size, GRADIENTS), Derivatives(other, GRADIENTS))
    assert (found is None) == agrees
    assert agrees or found.startswith("the loss is ")


def test_a_gradient_on_either_device_alone_is_a_difference():
    one = Derivatives(1.0, GRADIENTS)
    more = Derivatives(1.0, {**GRADIENTS, "bias": torch.ones(1)})
    for pair in ((one, more), (more, one)):
        assert difference(*pair) == "bias has a gradient on one of the two devices only"


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("apart", "agrees"), [(0.5, True), (2.0, False)])
def test_a_small_gradient_is_judged_by_the_length_of_the_whole(size, apart, agrees):
    large = torch.tensor([3.0, 4.0], dtype=torch.float64) * size / 5
    one = {"large": large, "small": torch.zeros(1, dtype=torch.float64)}
    other = one | {"small": torch.full((1,), apart * TOLERANCE * SMALLEST_SHARE * size, dtype=torch.float64)}
    assert (difference(Derivatives(1.0, one), Derivatives(1.0, other)) is None) == agrees
