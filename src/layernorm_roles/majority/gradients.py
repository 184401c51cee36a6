"""Loss and gradient of a majority transformer: by the compiled kernel on a CPU, by autograd on a GPU.

Their numbers agree up to rounding. Both set the gradient of one flat vector that holds all parameters of a model
(`flatten`), so that a step of Adam is one call.
"""

import copy
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from layernorm_roles.gpu.agreement import Derivatives
from layernorm_roles.majority import kernel
from layernorm_roles.majority.data import Sequences
from layernorm_roles.majority.model import MajorityTransformer, pair_loss
from layernorm_roles.majority.parameters import LossParameters, Sizes

Loss = Callable[[LossParameters, Tensor, Tensor], tuple[float | Tensor, int | Tensor]]
"""A function of parameters, counts and labels: the loss in nats per token, the number of tokens predicted rightly."""

Gradient = Callable[[Tensor, Tensor], float | Tensor]
"""A function of counts and labels that sets the gradient of one model's flat parameters and returns the loss."""

NORMED = 2
"""How many of the first fields of `LossParameters` are normed embeddings."""


def gradient_on(device: str) -> Callable[[MajorityTransformer, nn.Parameter], Gradient]:
    """The function that makes the `Gradient` of a model on `device`, from the model and its flat parameters."""
    return compiled_gradient if device == "cpu" else autograd_gradient


def derivatives(model: MajorityTransformer, sequences: Sequences, device: str) -> Derivatives:
    """The loss of a copy of `model` on `sequences`, and its gradient, on `device`, for the comparison of devices."""
    copied = copy.deepcopy(model).to(device)
    flat = flatten(copied)
    loss = gradient_on(device)(copied, flat)(*(torch.from_numpy(array).to(device) for array in sequences))
    return Derivatives(float(loss), {"the parameters": flat.grad.cpu().double()})


def flatten(model: MajorityTransformer) -> Float[nn.Parameter, " parameters"]:
    """Make all parameters and gradients of `model` views of one vector, and return that vector.

    The parameters lie in the order of `LossParameters`, those of the norms last. Adam works elementwise, so the
    numbers are those of an Adam on every parameter by itself.
    """
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


def autograd_gradient(model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]) -> Gradient:
    """A function that sets `flat.grad` to the gradient of the loss of `model`, by PyTorch, and returns the loss.

    `flat` is what `flatten(model)` returned.
    """

    def set_gradient(counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]):
        flat.grad.zero_()
        loss, _ = pair_loss(model.loss_parameters(), counts, label)
        loss.backward()
        return loss.detach()

    return set_gradient


def compiled_gradient(model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]) -> Gradient:
    """A function that sets `flat.grad` to the gradient of the loss of `model`, by the CPU kernel, and returns the loss.

    `flat` is what `flatten(model)` returned. The kernel computes the loss and its gradient with respect to the normed
    embeddings and the parameters after the norms; torch's autograd continues from the normed embeddings.
    """
    parameters, gradient = flat.detach().numpy(), flat.grad.numpy()
    sizes = Sizes(*model.embedding.weight.shape, len(model.layer.linear1.bias))
    normed_entries = sum(sizes.entries[:NORMED])
    direct = sizes.total - normed_entries  # of the flat vector's parameters; after them lie the norm's own

    def set_gradient(counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]):
        normed = model.normed()
        arguments = np.concatenate([*(h.detach().numpy().ravel() for h in normed), parameters[:direct]])
        loss, _, derivative = kernel.flat_gradient(counts.numpy(), label.numpy(), arguments, sizes)
        gradient[:direct], gradient[direct:] = derivative[normed_entries:], 0
        derivatives = torch.from_numpy(derivative[:normed_entries]).view(NORMED, *normed[0].shape)
        # A number with these derivatives: to be given derivatives, torch would import sympy, which takes 0.25 s.
        (torch.stack(normed) * derivatives).sum().backward()
        return loss

    return set_gradient


def compiled_loss(
    parameters: LossParameters, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> tuple[float, int]:
    """The loss in nats per token and the number of tokens predicted rightly, of CPU tensors, without a gradient."""
    arrays = [parameter.detach().numpy() for parameter in parameters]
    return kernel.loss_only(counts.numpy(), label.numpy(), arrays)
