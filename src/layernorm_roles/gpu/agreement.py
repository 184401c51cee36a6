"""Checks before training that a GPU computes correctly: a batch's loss and gradients, and single operators."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

TOLERANCE = 1e-4
"""Largest relative difference that is accepted between a number and its reference (CPU, or float64)."""
SMALLEST_SHARE = 1e-2
"""A difference in a parameter's gradient is taken relative to that gradient's norm, or to this share of the whole
gradient's norm, if that is more; else rounding errors would count as large in a gradient close to zero."""


class Derivatives(NamedTuple):
    """The loss of a model on one batch, and the gradients of its parameters, in CPU memory."""

    loss: float
    gradients: dict[str, Tensor]
    """The gradient of every parameter that has one, in float64, by the parameter's name."""


def derivatives(model: nn.Module, batch: tuple[np.ndarray, ...], device: str) -> Derivatives:
    """The loss `model.loss(*batch)` and its gradients, without dropout, on `device` (a name that torch knows).

    The arrays of `batch` become tensors there; the model stays there, with its parameters and training mode unchanged.
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
    """A sentence on the first loss or gradient in which CPU (`one`) and GPU (`other`) disagree, or None.

    They disagree if they differ by more than TOLERANCE, relatively.
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
    """A function of a model, such as attention, tested alone, as an error in it may hardly change the model's loss."""

    name: str
    function: Callable[..., Tensor]
    """Takes a floating-point tensor of each shape in `shapes`, then the other arguments, `others`; returns a tensor."""
    shapes: tuple[tuple[int, ...], ...]
    others: tuple[Tensor, ...] = ()
    """Arguments of the function after those of `shapes`, such as token ids; they are not differentiated."""


def operator_difference(operator: Operator, device: str) -> str | None:
    """A sentence on the first disagreement of an operator in float32 with float64 on `device`; None if there is none.

    Its result and gradients at standard normal inputs may differ by TOLERANCE, relatively.
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
