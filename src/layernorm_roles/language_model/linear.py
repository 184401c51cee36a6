"""A linear layer that is computed by oneDNN where that is faster than torch's own choice.

torch multiplies float32 matrices on a CPU by MKL, which keeps to vectors of 256 bits on AMD's processors. oneDNN, which
comes with torch and which torch's compiler calls for linear layers, uses 512: 200 instead of 100 GFLOP/s on one core of
Zen 5, for the matrices of a model of width 64.
"""

from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SMALLEST = 32
"""With fewer inputs or outputs the call costs more than the product."""


class Linear(nn.Linear):
    """torch.nn.Linear, by `linear`."""

    def forward(self, x: Float[Tensor, "*more inputs"]) -> Float[Tensor, "*more outputs"]:
        """x weight' + bias."""
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*more inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*more outputs"]:
    """x weight' + bias, what torch.nn.functional.linear gives up to rounding; it can be differentiated once."""
    if x.device.type == "cpu" and x.dtype == torch.float32 and min(weight.shape) >= SMALLEST and has_onednn():
        return _Linear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


@cache
def has_onednn() -> bool:
    """Whether this build of torch can call oneDNN for a linear layer."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Linear(torch.autograd.Function):
    """x weight' + bias for autograd; three products by oneDNN."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        """x weight' + bias."""
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """The gradients with respect to x, weight and bias, for the one with respect to the result."""
        x, weight = ctx.saved_tensors
        rows, grad_rows = x.flatten(0, -2), grad.flatten(0, -2)
        grad_bias = grad_rows.sum(dim=0) if ctx.has_bias else None
        return _product(grad, weight.T), _product(grad_rows.T, rows.T), grad_bias


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
