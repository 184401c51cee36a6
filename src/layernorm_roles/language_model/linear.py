"""Linear layers and feed-forward parts, on the CPU in float32 by compiled kernels.

torch computes a feed-forward part in five operations, each of which writes all hidden units to memory, and multiplies
these small matrices at half of the speed of a core. The kernels take a few tokens through both products and GELU while
their hidden units are in the cache, keep GELU's derivative for the backward pass, and use the widest vectors that the
processor has. What they compute depends on no number of threads.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.language_model import parallel
from layernorm_roles.language_model.kernels import COMPILING, vectors
from layernorm_roles.language_model.kernels import feed_forward as kernels


class Linear(nn.Linear):
    """A torch.nn.Linear that the compiled kernels compute on the CPU in float32."""

    def forward(self, x: Float[Tensor, "*more inputs"]) -> Float[Tensor, "*more outputs"]:
        """x weight' + bias."""
        return linear(x, self.weight, self.bias)


class FeedForward(nn.Sequential):
    """A feed-forward part with d_ff hidden units: linear, GELU, linear. `approximate` is that of torch.nn.GELU."""

    def __init__(self, d_model: int, d_ff: int, approximate: str = "none"):
        super().__init__(Linear(d_model, d_ff), nn.GELU(approximate), Linear(d_ff, d_model))

    def forward(self, x: Float[Tensor, "*more d_model"]) -> Float[Tensor, "*more d_model"]:
        """What the part adds to the residual stream; it can be differentiated once."""
        if not _takes(x):
            return super().forward(x)
        first, gelu, second = self
        parameters = first.weight, first.bias, second.weight, second.bias
        return _FeedForward.apply(x, *parameters, gelu.approximate == "none")


def linear(
    x: Float[Tensor, "*more inputs"],
    weight: Float[Tensor, "outputs inputs"],
    bias: Float[Tensor, " outputs"] | None = None,
) -> Float[Tensor, "*more outputs"]:
    """x weight' + bias, what torch.nn.functional.linear gives up to rounding; it can be differentiated once."""
    if _takes(x) and not any(size % vectors.LANES for size in weight.shape):
        return _Linear.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def _takes(x: Tensor) -> bool:
    """Whether the compiled kernels can compute with x: whether it is a tensor of float32 on the CPU."""
    return x.device.type == "cpu" and x.dtype == torch.float32


class _Linear(torch.autograd.Function):
    """x weight' + bias for autograd, for a weight whose sizes are multiples of LANES."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        """x weight' + bias; x is (..., inputs), weight (outputs, inputs), and bias (outputs,) or None."""
        rows = _rows(x)
        out = x.new_empty(len(rows), len(weight))
        ctx.save_for_backward(rows, weight)
        ctx.has_bias = bias is not None
        fixed = weight.T.contiguous(), bias if ctx.has_bias else weight.new_zeros(len(weight))
        _by_parts(kernels.linear_forward, (rows, out), fixed)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Gradients of the loss by x, weight and bias (None without one); `grad`, by the output, is (..., outputs)."""
        rows, weight = ctx.saved_tensors
        x_grad = torch.zeros_like(rows)
        by_token, sums = (rows, _rows(grad), x_grad), (weight.shape, weight.shape[:1])
        weight_grad, bias_grad = _by_parts(kernels.linear_backward, by_token, (weight.contiguous(),), *sums)
        return x_grad.view(*grad.shape[:-1], -1), weight_grad, bias_grad if ctx.has_bias else None


class _FeedForward(torch.autograd.Function):
    """GELU(x w_in' + b_in) w_out' + b_out for autograd, the feed-forward part of a layer."""

    @staticmethod
    def forward(ctx, x, w_in, b_in, w_out, b_out, exact):
        """The output for x, both (..., d); w_in is (d_ff, d) and w_out (d, d_ff). GELU is exact, or by a tanh if not.

        Keeps x, the hidden units, and GELU's derivative at them for backward.
        """
        rows, (d_ff, d) = _rows(x), w_in.shape
        ctx.save_for_backward(rows, w_in, w_out)
        fixed = _whole(w_in.T), _whole(b_in), _whole(w_out.T, d_ff), _whole(b_out)
        hidden, slope, out = (x.new_empty(len(rows), len(bias)) for bias in (fixed[1], fixed[1], fixed[3]))
        _by_parts(partial(kernels.feed_forward_forward, exact), (rows, hidden, slope, out), fixed)
        ctx.hidden = hidden, slope
        return out[:, :d].reshape(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Gradients of the loss by x and the four parameters, in the order of forward; `grad`, by the output, is
        (..., d). `exact` has none."""
        rows, w_in, w_out = ctx.saved_tensors
        d_ff, d = w_in.shape
        fixed = _whole(w_in, d_ff), _whole(w_out)
        x_grad, sums = rows.new_zeros(len(rows), fixed[0].shape[1]), (fixed[1].shape, fixed[1].shape[1:])
        by_token = (rows, *ctx.hidden, _rows(grad), x_grad)
        of_in, of_b_in, of_out, of_b_out = _by_parts(
            kernels.feed_forward_backward, by_token, fixed, *sums, fixed[1].shape, (d,)
        )
        x_grad = x_grad[:, :d].reshape(grad.shape)
        return x_grad, of_in[:, :d_ff].T, of_b_in[:d_ff], of_out[:, :d_ff], of_b_out, None


def _rows(x: Float[Tensor, "*more d"]) -> Float[Tensor, "tokens d"]:
    """x with a row a token, one after another."""
    return x.reshape(-1, x.shape[-1]).contiguous()


def _whole(t: Float[Tensor, "*rows columns"], rows: int = 0) -> Float[Tensor, "*more_rows more_columns"]:
    """t with its columns, and its `rows` where they are given, filled up with zeros to multiples of LANES."""
    missing = (0, -t.shape[-1] % vectors.LANES, 0, -rows % vectors.LANES)[: 2 * t.dim()]
    return (F.pad(t, missing) if any(missing) else t).contiguous()


def _by_parts(
    kernel: Callable, by_token: Sequence[Tensor], fixed: Sequence[Tensor], *sums: Sequence[int]
) -> list[Tensor]:
    """Call `kernel` for the rows of each part, and return what it has added to zeros of the shapes `sums`.

    Its arguments are the part's rows of the tensors `by_token`, the tensors `fixed`, and a part's own sums.
    """

    def compute(part: slice) -> list[Tensor]:
        own = [fixed[0].new_zeros(shape) for shape in sums]
        kernel(*(t.detach().numpy() for t in (*(t[part] for t in by_token), *fixed, *own)))
        return own

    with compilation_notice(*COMPILING):
        first, *others = parallel.each(compute, parallel.slices(len(by_token[0]), parallel.TOKENS))
    for other in others:
        for total, part in zip(first, other, strict=True):
            total += part
    return first
