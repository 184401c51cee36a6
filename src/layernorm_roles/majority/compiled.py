"""The compiled CPU kernel for PyTorch models: torch differentiates the norm, the kernel all the rest."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from layernorm_roles.majority import kernel
from layernorm_roles.majority.model import MajorityTransformer, Tables


def compiled_loss(
    tables: Tables, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """As `model.pair_loss`, without a gradient; CPU tensors only."""
    loss, right = kernel.loss_only(counts.numpy(), label.numpy(), [t.detach().numpy() for t in tables])
    return torch.tensor(loss, dtype=torch.float64), torch.tensor(right)


def compiled_gradient(
    model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]
) -> Callable[[UInt8[Tensor, "batch classes"], Int[Tensor, " batch"]], float]:
    """As `train.autograd_gradient`, from one call of the kernel; CPU tensors only."""
    embedding, norm = model.embedding.weight, model.layer.norm1
    parameters, gradient = flat.detach().numpy(), flat.grad.numpy()
    sizes = kernel.Sizes(*embedding.shape, len(model.layer.linear1.bias))
    first = embedding.numel()
    direct = sizes.total - first  # after them lie the norm's own

    def set_gradient(counts, label):
        normed = norm(embedding)
        tables = np.concatenate([normed.detach().numpy().ravel(), parameters[:direct]])
        loss, _, by_table = kernel.flat_gradient(counts.numpy(), label.numpy(), tables, sizes)
        gradient[:direct], gradient[direct:] = by_table[first:], 0
        normed.backward(torch.from_numpy(by_table[:first].reshape(embedding.shape)))
        return loss

    return set_gradient
