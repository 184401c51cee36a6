"""Causal attention, softmax(q k' / sqrt(d_head)) v, that is fast for heads of very few dimensions.

General kernels fill a processor's vector registers with the dimensions of a head, of which the paper's models have two.
On the CPU in float32 the module `kernels` fills the registers with keys, and never stores the matrix of scores: the
backward pass computes its rows again from their log-sum-exps. In float64, for larger heads and on a GPU, attention is
torch's scaled_dot_product_attention; on a GPU heads are padded to a size that its fused kernels accept.
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
"""Largest number of dimensions of a head for which the compiled kernel is used: above it torch's is faster."""
ALIGNMENT = 8
"""torch's fused CUDA kernels take heads whose number of dimensions is a multiple of this: they load 16 bytes at a time,
which are 8 numbers of half precision. For other heads torch uses a kernel that writes all scores to memory."""


def causal_attention(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int, dropout: float = 0.0
) -> Float[Tensor, "batch n d_model"]:
    """Causal multi-head attention: for each query the mean of the values up to its position, weighted by a softmax.

    The last axis of `qkv` has the queries of all heads, one head after another, then all keys, then all values; the
    last axis of the result has the outputs of the heads, one after another. `dropout` is the share of the attention
    weights that is set to 0. The result can be differentiated once.
    """
    if qkv.device.type == "cpu" and qkv.dtype == torch.float32 and qkv.shape[-1] <= 3 * heads * WIDEST_HEAD:
        return _CausalAttention.apply(qkv, heads, dropout)
    return attention(*split(qkv, heads), dropout_p=dropout, is_causal=True).transpose(1, 2).flatten(2)


def split(
    qkv: Float[Tensor, "batch n three_d_model"], heads: int
) -> tuple[Float[Tensor, "batch heads n d_head"], ...]:
    """Split a tensor laid out like the argument `qkv` of `causal_attention` into queries, keys and values by head."""
    return tuple(part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))


def attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention with its `options`; on a GPU it is `widened_attention`."""
    on_device = widened_attention if q.device.type == "cuda" else F.scaled_dot_product_attention
    return on_device(q, k, v, **options)


def widened_attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention, with heads padded by zero dimensions for its fused CUDA kernels.

    The padding, to a multiple of ALIGNMENT dimensions, does not change the result.
    """
    d = q.shape[-1]
    wide = (F.pad(t, (0, -d % ALIGNMENT)) for t in (q, k, v))
    return F.scaled_dot_product_attention(*wide, scale=d**-0.5, **options)[..., :d]


class _CausalAttention(torch.autograd.Function):
    """The autograd function by which `causal_attention` calls the compiled CPU kernel."""

    @staticmethod
    def forward(ctx, qkv, heads, dropout):
        """The attention output (batch, n, d_model) for the arguments of `causal_attention`.

        Saves qkv, the output, the log-sum-exp of each query's scores and the dropout mask for `backward`.
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
        """The loss's gradient with respect to qkv, from its gradient `grad` with respect to the attention output."""
        qkv_grad = torch.empty_like(ctx.saved_tensors[0])
        tensors = (*ctx.saved_tensors, grad.contiguous(), qkv_grad)
        qkv, mask, *arrays = (None if t is None else t.detach().numpy() for t in tensors)

        def compute(part: slice) -> None:
            kernels.attention_backward(qkv, mask, ctx.scale, (part.start, part.stop), *arrays, ctx.block)

        with compilation_notice(*COMPILING):
            parallel.each(compute, parallel.shares(len(arrays[1])))
        return qkv_grad, None, None
