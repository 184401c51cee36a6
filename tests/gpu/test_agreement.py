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

WEIGHT = torch.tensor([3.0, 4.0], dtype=torch.float64)
NAN = float("nan")


def apart(loss=0.0, weight=0.0, small=0.0, size=1.0):
    """What differs between two devices whose numbers differ by these shares, of a model of some size."""
    one = {"weight": size / 5 * WEIGHT, "small": 0 * WEIGHT[:1]}
    other = {"weight": (1 + weight) * one["weight"], "small": one["small"] + small * size}
    return difference(Derivatives(size, one), Derivatives(size * (1 + loss), other))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ({"loss": 0.5 * TOLERANCE, "weight": 0.5 * TOLERANCE}, None),
        ({"loss": 5 * TOLERANCE}, "the loss is "),
        ({"loss": NAN}, "the loss is "),
        ({"weight": 5 * TOLERANCE}, "the gradient of weight"),
        ({"weight": NAN}, "the gradient of weight"),
        # A small gradient is judged by the length of the whole.
        ({"small": 0.5 * TOLERANCE * SMALLEST_SHARE}, None),
        ({"small": 2 * TOLERANCE * SMALLEST_SHARE}, "the gradient of small"),
    ],
)
def test_numbers_agree_within_the_tolerance_of_their_size(shares, says, size):
    found = apart(size=size, **shares)
    assert found is None if says is None else found.startswith(says)


def test_a_gradient_on_either_device_alone_is_a_difference():
    one, more = (Derivatives(1.0, {"weight": WEIGHT} | bias) for bias in ({}, {"bias": torch.ones(1)}))
    for pair in ((one, more), (more, one)):
        assert difference(*pair) == "bias has a gradient on one of the two devices only"


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
