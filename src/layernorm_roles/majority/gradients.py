"""The loss of the majority task's transformer and its gradient: by a compiled kernel on a CPU, by autograd on a GPU.

The two agree up to rounding. All parameters of a model are views of one flat vector, which `flatten` makes, so that a
step of Adam is one call.
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
"""A function that takes parameters, class counts and labels of sequences, and returns two numbers: the loss in nats per
token, and how many tokens are predicted correctly."""

Gradient = Callable[[Tensor, Tensor], float | Tensor]
"""A function that takes class counts and labels of a batch, computes the loss of one model, sets the gradient of the
model's flat parameter vector, and returns the loss."""

NORMED = 2
"""The number of fields of `LossParameters` that are embeddings after the norm before attention; they come first."""


def gradient_on(device: str) -> Callable[[MajorityTransformer, nn.Parameter], Gradient]:
    """The maker of models' gradient functions on `device`: `compiled_gradient` for "cpu", else `autograd_gradient`."""
    return compiled_gradient if device == "cpu" else autograd_gradient


def derivatives(model: MajorityTransformer, sequences: Sequences, device: str) -> Derivatives:
    """The loss of a copy of `model` on `sequences` and its gradient by `device`, to compare a GPU with the CPU."""
    copied = copy.deepcopy(model).to(device)
    flat = flatten(copied)
    loss = gradient_on(device)(copied, flat)(*(torch.from_numpy(array).to(device) for array in sequences))
    return Derivatives(float(loss), {"the parameters": flat.grad.cpu().double()})


def flatten(model: MajorityTransformer) -> Float[nn.Parameter, " parameters"]:
    """Make all parameters of `model`, and their gradients, views of one vector and of its gradient; return this vector.

    The parameters lie in the order of `LossParameters`, followed by those of the norms before attention. Adam works
    elementwise, so one step on the vector changes every parameter as a step on that parameter alone would.
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
    """A function that computes the loss of `model` on a batch with PyTorch, and sets `flat.grad` to its gradient.

    The function returns the loss. `flat` is the parameter vector that `flatten(model)` returned.
    """

    def set_gradient(counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]):
        flat.grad.zero_()
        loss, _ = pair_loss(model.loss_parameters(), counts, label)
        loss.backward()
        return loss.detach()

    return set_gradient


def compiled_gradient(model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]) -> Gradient:
    """A function that computes the loss of `model` on a batch by the CPU kernel, and sets `flat.grad` to its gradient.

    The function returns the loss. `flat` is the parameter vector that `flatten(model)` returned. The kernel computes
    derivatives with respect to the embeddings after the norm before attention, and to all parameters but those of that
    norm; torch's autograd continues through the norm.
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
    """The loss of a batch in nats per token and the number of correctly predicted tokens, by the CPU kernel."""
    arrays = [parameter.detach().numpy() for parameter in parameters]
    return kernel.loss_only(counts.numpy(), label.numpy(), arrays)
