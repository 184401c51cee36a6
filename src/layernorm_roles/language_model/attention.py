"""Causal attention, softmax(q k' / sqrt(d_head)) v, that is fast for heads of very few dimensions.

General kernels fill a processor's vector registers with the dimensions of a head, of which the paper's models have two.
In float32 on the CPU the compiled kernels used here fill them with keys instead, and never store the matrix of scores.
In float64, for larger heads and on a GPU, attention is torch's scaled_dot_product_attention.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from layernorm_roles.language_model import parallel
from layernorm_roles.language_model.kernels import attention as kernels
from layernorm_roles.language_model.kernels import softmax

WIDEST_HEAD = 16
"""Largest dimension of a head for which the compiled CPU kernel is used: for larger heads torch's is faster."""
ALIGNMENT = {"cpu": 1, "cuda": 4}
"""What head dimensions are a multiple of, by device: torch's memory-efficient CUDA kernel wants 16 bytes, four float32
numbers. Its other fused kernels, flash and cuDNN, take half precision only."""


def causal_attention(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int, dropout: float = 0.0
) -> Float[Tensor, "batch n d_model"]:
    """Causal multi-head attention, softmax(q k' / sqrt(d_head)) v, which can be differentiated once.

    The last axis of `qkv` has the queries of all heads, one head after another, then all keys, then all values; the
    last axis of the result has the heads' outputs, one head after another. `dropout` is the probability with which an
    attention weight is set to 0; the other weights are divided by 1 - dropout.
    """
    if qkv.device.type == "cpu" and qkv.dtype == torch.float32 and qkv.shape[-1] <= 3 * heads * WIDEST_HEAD:
        return _CausalAttention.apply(qkv, heads, dropout)
    return attention(*split(qkv, heads), dropout_p=dropout, is_causal=True).transpose(1, 2).flatten(2)


def split(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int
) -> tuple[Float[Tensor, "batch heads n d_head"], ...]:
    """Split `qkv`, as `causal_attention` takes it, into queries, keys and values."""
    return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))


def attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention(q, k, v, **options), without a scale among the options.

    Heads whose dimension is not a multiple of `ALIGNMENT` are widened by zeros, and the output is cut again.
    """
    d, multiple = q.shape[-1], ALIGNMENT[q.device.type]
    if d % multiple == 0:
        return F.scaled_dot_product_attention(q, k, v, **options)
    wide = (F.pad(t, (0, -d % multiple)) for t in (q, k, v))
    return F.scaled_dot_product_attention(*wide, scale=d**-0.5, **options)[..., :d]


class _CausalAttention(torch.autograd.Function):
    """Causal attention of float32 `qkv` by the compiled CPU kernel."""

    @staticmethod
    def forward(ctx, qkv, heads, dropout):
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

        parallel.each(compute, parallel.shares(len(log_total)))
        ctx.save_for_backward(qkv, mask, out, log_total)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        qkv_grad = torch.empty_like(ctx.saved_tensors[0])
        tensors = (*ctx.saved_tensors, grad.contiguous(), qkv_grad)
        qkv, mask, *arrays = (None if t is None else t.detach().numpy() for t in tensors)

        def compute(part: slice) -> None:
            kernels.attention_backward(qkv, mask, ctx.scale, (part.start, part.stop), *arrays, ctx.block)

        parallel.each(compute, parallel.shares(len(arrays[1])))
        return qkv_grad, None, None
