"""Whether a GPU computes what the CPU computes: loss and gradients of one batch on both, before training."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

TOLERANCE = 1e-4
"""Largest relative difference between the numbers of two devices."""
SMALLEST_SHARE = 1e-2
"""A parameter's gradient below this share of the whole gradient is compared with that share of it.

Rounding, of about 1e-7 of what is added up, would otherwise count much in a gradient that is close to zero."""


class Derivatives(NamedTuple):
    """The loss of a model on one batch, and the gradients of its parameters, held on the CPU."""

    loss: float
    gradients: dict[str, Tensor]
    """The gradient of every parameter that has one, in float64, by the parameter's name."""


def derivatives(model: nn.Module, batch: tuple[np.ndarray, ...], device: str) -> Derivatives:
    """Loss and gradients on `device`, without dropout, of a model with a method `loss` that takes `batch`.

    The model is left on the device, otherwise as it was.
    """
    was_training = model.training
    model.to(device).eval()
    loss = model.loss(*(torch.from_numpy(array).to(device) for array in batch))
    loss.backward()
    gradients = {
        name: parameter.grad.detach().cpu().double().clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    model.zero_grad(set_to_none=True)
    model.train(was_training)
    return Derivatives(loss.item(), gradients)


def difference(one: Derivatives, other: Derivatives) -> str | None:
    """None if loss and gradients of two devices agree within TOLERANCE; else the first number that does not, on both.

    `one` is what the CPU computed, `other` what the GPU computed.
    """
    if not abs(one.loss - other.loss) <= TOLERANCE * abs(one.loss):  # also if a number is not finite
        return f"the loss is {one.loss:.8g} on the CPU and {other.loss:.8g} on the GPU"
    whole = sum(gradient.square().sum().item() for gradient in one.gradients.values()) ** 0.5
    for name in sorted({*one.gradients, *other.gradients}):
        first, second = (numbers.gradients.get(name) for numbers in (one, other))
        if first is None or second is None:
            return f"{name} has a gradient on one of the two devices only"
        apart = (first - second).norm().item()
        if not apart <= TOLERANCE * max(first.norm().item(), SMALLEST_SHARE * whole):
            return (
                f"the gradient of {name} has length {first.norm().item():.8g} on the CPU and "
                f"{second.norm().item():.8g} on the GPU, and their difference {apart:.3g}"
            )
    return None


class Operator(NamedTuple):
    """A part of a model that may go wrong on a GPU although the loss of a whole untrained model does not show it."""

    name: str
    function: Callable[..., Tensor]
    """Returns a tensor, given one tensor of floating-point numbers for each of `shapes`, and then `others`."""
    shapes: tuple[tuple[int, ...], ...]
    others: tuple[Tensor, ...] = ()
    """Further arguments, such as the numbers of tokens."""


def operator_difference(operator: Operator, device: str) -> str | None:
    """None if the operator and its gradients in float32 agree with those in float64 on `device`, else what does not.

    Its inputs are unit normal. In an untrained model the scores of attention are close to 0, so that a loss and its
    gradients hardly depend on how they are computed.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator) for shape in operator.shapes]
    others = [other.to(device) for other in operator.others]
    results = []
    for dtype in (torch.float32, torch.float64):
        given = [tensor.clone().to(device, dtype).requires_grad_() for tensor in inputs]
        out = operator.function(*given, *others)
        # Different weights for every entry of the result: a plain sum hides what cancels.
        weights = torch.linspace(-1.0, 1.0, out.numel(), dtype=torch.float64).cos().view(out.shape)
        (out * weights.to(device, dtype)).sum().backward()
        results.append([out.detach().double(), *(tensor.grad.double() for tensor in given)])
    for number, (ours, exact) in enumerate(zip(*results, strict=True)):
        apart = ((ours - exact).norm() / exact.norm()).item()
        if not apart <= TOLERANCE:
            what = f"its gradient by input {number}" if number else "its result"
            return f"{operator.name}: {what} is {apart:.2g} of its length from that in float64"
    return None
