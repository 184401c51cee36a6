"""When the numbers of two devices agree: the loss counts whatever the gradients are, on a scale of its own size."""

import pytest
import torch

from layernorm_roles.gpu.agreement import (
    SMALLEST_SHARE,
    TOLERANCE,
    Derivatives,
    Operator,
    difference,
    operator_difference,
)

GRADIENTS = {"weight": torch.tensor([3.0, 4.0])}


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("apart", "agrees"), [(0.5, True), (5.0, False), (float("nan"), False)])
def test_losses_agree_within_the_tolerance_of_their_size(size, apart, agrees):
    other = size * (1 + apart * TOLERANCE)
    found = difference(Derivatives(size, GRADIENTS), Derivatives(other, GRADIENTS))
    assert (found is None) == agrees
    assert agrees or found.startswith("the loss is ")


@pytest.mark.parametrize(("factor", "agrees"), [(1 + 5e-5, True), (1 + 5e-4, False), (float("nan"), False)])
def test_a_gradient_counts_even_where_the_loss_agrees(factor, agrees):
    other = {"weight": factor * GRADIENTS["weight"]}
    assert (difference(Derivatives(1.0, GRADIENTS), Derivatives(1.0, other)) is None) == agrees


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


class Scores(torch.autograd.Function):
    """The square of x in float64; in float32 the wrong one, or one with the wrong gradient."""

    @staticmethod
    def forward(ctx, x, wrong):
        ctx.save_for_backward(x)
        ctx.factor = 1 + wrong * (x.dtype == torch.float32)
        return x.square()

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.factor * ctx.saved_tensors[0] * grad, None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x.square(), None),
        (lambda x: Scores.apply(x, 1e-3), "its gradient by input 1 is 0.001 of its length"),
        (lambda x: x.square() * (1 + 1e-3 * (x.dtype == torch.float32)), "its result is 0.001 of its length"),
        (lambda x: x.square() / (x.dtype != torch.float32), "its result is inf of its length"),
    ],
)
def test_an_operator_is_compared_with_itself_in_float64(function, said):
    found = operator_difference(Operator("square", function, ((4, 3),)), "cpu")
    assert found is None if said is None else found.startswith(f"square: {said}")
