"""Causal attention, softmax(q k' / sqrt(d_head)) v, made for heads of very few dimensions.

General kernels fill vector registers with a head's dimensions, of which the paper's models have two. On the CPU in
float32 `kernels` fills them with keys, and never holds the matrix of scores: the backward pass computes its rows
again from their log-sum-exps. In float64, for larger heads and on a GPU the attention is torch's
scaled_dot_product_attention, on a GPU with heads made wide enough for its fused kernels.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.language_model import parallel
from layernorm_roles.language_model.kernels import COMPILING, softmax
from layernorm_roles.language_model.kernels import attention as kernels

WIDEST_HEAD = 16
"""Largest head that the compiled kernel takes: from about here on torch's is faster."""
ALIGNMENT = 8
"""Sizes of a head that torch's fused CUDA kernels take are multiples of this, because they load 16 bytes at a time: 4
numbers of float32, 8 of half precision. Other heads get a kernel that writes the matrix of scores to memory."""


def causal_attention(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int, dropout: float = 0.0
) -> Float[Tensor, "batch n d_model"]:
    """Causal attention: for every query the mean of the values up to its position, weighted by its softmax.

    `qkv` holds all queries, then all keys, then all values, of one head after the other; the result, too, has the heads
    one after the other. `dropout` is the share of the weights set to 0. The result can be differentiated once.
    """
    if qkv.device.type == "cpu" and qkv.dtype == torch.float32 and qkv.shape[-1] <= 3 * heads * WIDEST_HEAD:
        return _CausalAttention.apply(qkv, heads, dropout)
    return attention(*split(qkv, heads), dropout_p=dropout, is_causal=True).transpose(1, 2).flatten(2)


def split(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int
) -> tuple[Float[Tensor, "batch heads n d_head"], ...]:
    """Queries, keys and values, by head, of the `qkv` that `causal_attention` takes."""
    return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))


def attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention; on a GPU heads are filled up with zeros, as its fused kernels need it."""
    on_device = widened_attention if q.device.type == "cuda" else F.scaled_dot_product_attention
    return on_device(q, k, v, **options)


def widened_attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention of heads that are filled up with zeros; they change no result."""
    d = q.shape[-1]
    wide = (F.pad(t, (0, -d % ALIGNMENT)) for t in (q, k, v))
    return F.scaled_dot_product_attention(*wide, scale=d**-0.5, **options)[..., :d]


class _CausalAttention(torch.autograd.Function):
    """`causal_attention` by the compiled kernel, for autograd."""

    @staticmethod
    def forward(ctx, qkv, heads, dropout):
        """The means of the values (batch, n, d_model), for the arguments of `causal_attention`.

        Saves qkv, the means, the log-sum-exp of each query's scores and the dropout mask for backward.
        """
        qkv, (batch, n, width) = qkv.contiguous(), qkv.shape
        out = qkv.new_empty(batch, n, width // 3)
        log_total = qkv.new_empty(batch * heads, softmax.padded(n))
        threshold = round((1 - dropout) * 2**16)
        ctx.scale, ctx.block = np.float32(2**16 / threshold), softmax.unrolled(width // 3 // heads)
        mask = kernels.empty_dropout_mask(*log_total.shape) if dropout else None
        key = tuple(torch.randint(2**32, (2,)).tolist()) if dropout else None
        arrays = [None if t is None else t.detach().numpy() for t in (qkv, mask, out, log_total)]

        def compute(part: slice) -> None:
            qkv, mask, *written = arrays
            if dropout:
                kernels.draw_dropout_mask(mask[part], part.start, key, threshold)
            kernels.attention_forward(qkv, mask, ctx.scale, (part.start, part.stop), *written, ctx.block)

        with compilation_notice(*COMPILING):
            parallel.each(compute, parallel.shares(len(log_total)))
        ctx.save_for_backward(qkv, mask, out, log_total)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        """Gradient of the loss by qkv, none by the rest; `grad`, by the means, is (batch, n, d_model)."""
        qkv_grad = torch.empty_like(ctx.saved_tensors[0])
        tensors = (*ctx.saved_tensors, grad.contiguous(), qkv_grad)
        qkv, mask, *arrays = (None if t is None else t.detach().numpy() for t in tensors)

        def compute(part: slice) -> None:
            kernels.attention_backward(qkv, mask, ctx.scale, (part.start, part.stop), *arrays, ctx.block)

        with compilation_notice(*COMPILING):
            parallel.each(compute, parallel.shares(len(arrays[1])))
        return qkv_grad, None, None
