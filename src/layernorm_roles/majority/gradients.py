"""The loss of the majority task's transformer and its gradient, by the compiled kernel.

A model's parameters are views of one flat vector, so that a step of Adam is one call.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from layernorm_roles.majority import kernel
from layernorm_roles.majority.data import Sequences
from layernorm_roles.majority.model import MajorityTransformer
from layernorm_roles.majority.parameters import LossParameters

Gradient = Callable[[Tensor, Tensor], float]
"""Function of class counts and labels of a batch, made for one model; returns the loss in nats per token, and sets the
gradient of the model's flat parameter vector."""

NORMED = 2
"""How many fields of `LossParameters`, the first ones, are embeddings after the norm before attention."""

Batch = tuple[UInt8[Tensor, "_ classes"], Int[Tensor, " _"]]
"""Class counts (a row a sequence) and labels of sequences, as tensors."""


def as_tensors(sequences: Sequences) -> Batch:
    """The class counts and labels of `sequences` as tensors, which share memory with the numpy arrays."""
    return tuple(map(torch.from_numpy, sequences))


def flatten(model: MajorityTransformer) -> Float[nn.Parameter, " parameters"]:
    """Make all parameters of `model` views of one flat vector, and return this vector."""
    parameters = [*model.loss_parameters()[NORMED:], *model.norm_parameters()]
    flat = nn.Parameter(nn.utils.parameters_to_vector(parameters).detach())
    flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, value, gradient in zip(
        parameters, flat.detach().split(sizes), flat.grad.split(sizes), strict=True
    ):
        parameter.data = value.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return flat


def compiled_gradient(model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]) -> Gradient:
    """Make a function that computes the loss of a training batch, and its gradient, by the compiled CPU kernel."""
    direct = model.loss_parameters()[NORMED:]

    def set_gradient(counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]):
        normed = model.normed()
        arrays = [parameter.detach().numpy() for parameter in (*normed, *direct)]
        loss, _, gradients = kernel.loss_and_gradients(counts.numpy(), label.numpy(), arrays)
        flat.grad.zero_()
        for parameter, gradient in zip(direct, gradients[NORMED:], strict=True):
            parameter.grad.copy_(torch.from_numpy(gradient))
        # A number with these derivatives: to be given derivatives, torch would import sympy, which takes 0.25 s.
        (torch.stack(normed) * torch.from_numpy(np.stack(gradients[:NORMED]))).sum().backward()
        return loss

    return set_gradient


def compiled_loss(
    parameters: LossParameters, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> tuple[float, int]:
    """The loss of sequences in nats per token, and the number of correctly predicted tokens, by the CPU kernel."""
    arrays = [parameter.detach().numpy() for parameter in parameters]
    return kernel.loss_only(counts.numpy(), label.numpy(), arrays)
