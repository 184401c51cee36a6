"""The check before training that a GPU computes what the CPU computes: the loss of a batch and its gradients."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

TOLERANCE = 1e-4
"""Largest relative difference that is accepted between a number and its reference on the CPU."""
SMALLEST_SHARE = 1e-2
"""A difference in a parameter's gradient is taken relative to that gradient's norm, or to this share of the whole
gradient's norm, if that is more; else rounding errors would count as large in a gradient close to zero."""


class Derivatives(NamedTuple):
    """The loss of a model on one batch, and the gradients of its parameters, in CPU memory."""

    loss: float
    gradients: dict[str, Tensor]
    """The gradient of every parameter that has one, in float64, by the parameter's name."""


def derivatives(model: nn.Module, batch: tuple[np.ndarray, ...], device: str) -> Derivatives:
    """The loss `model.loss(*batch)`, without dropout, and its gradients with respect to the model's parameters.

    They are computed on `device`, a name that torch knows, from tensors of the arrays in `batch`. The model is moved
    there and stays there; its parameters and its training mode do not change.
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
    """A sentence on the first loss or gradient that differs between the CPU (`one`) and the GPU (`other`), or None.

    None means that losses and gradients agree to within a relative difference of 1e-4 (TOLERANCE).
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
