"""The compiled CPU kernel as a PyTorch function: torch differentiates the tables, the kernel the rest."""

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from layernorm_roles.majority import kernel
from layernorm_roles.majority.model import Tables


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, counts, label, *tables):
        loss, right, gradients = kernel.loss_and_gradients(
            counts.numpy(), label.numpy(), [table.detach().numpy() for table in tables]
        )
        # Loss and gradients come from one sweep over the pairs; backward only hands them on.
        ctx.gradients = [torch.from_numpy(gradient) for gradient in gradients]
        right = torch.tensor(right)
        ctx.mark_non_differentiable(right)
        return tables[0].new_tensor(loss), right

    @staticmethod
    def backward(ctx, upstream, _):
        return None, None, *(upstream * gradient for gradient in ctx.gradients)


def compiled_loss(
    tables: Tables, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """As `model.pair_loss`, from the numba kernel; CPU tensors only."""
    if torch.is_grad_enabled():
        return _Compiled.apply(counts, label, *tables)
    loss, right = kernel.loss_only(
        counts.numpy(), label.numpy(), [table.detach().numpy() for table in tables]
    )
    return torch.tensor(loss), torch.tensor(right)
