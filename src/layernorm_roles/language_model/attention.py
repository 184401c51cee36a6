"""Causal attention, softmax(q k' / sqrt(d_head)) v, made for heads of very few dimensions.

General kernels fill vector registers with a head's dimensions, of which the paper's models have two. On the CPU in
float32 `kernels` fills them with keys, and never holds the matrix of scores: the backward pass computes its rows
again from their log-sum-exps. In float64, for larger heads, with dropout and on a GPU the attention is torch's
scaled_dot_product_attention, on a GPU with heads made wide enough for its fused kernels.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.language_model import kernels, parallel

WIDEST_HEAD = 16
"""Largest head that the compiled kernel takes: from about here on torch's is faster."""
ALIGNMENT = 8
"""Sizes of a head that torch's fused CUDA kernels take are multiples of this, because they load 16 bytes at a time: 4
numbers of float32, 8 of half precision. Other heads get a kernel that writes the matrix of scores to memory."""


def causal_attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads n d_head"]:
    """For every query the mean of the values up to its position, weighted by the softmax of the scores.

    `dropout` is the share of the weights set to 0. The result can be differentiated once.
    """
    if q.device.type == "cpu" and q.dtype == torch.float32 and q.shape[-1] <= WIDEST_HEAD:
        return _CausalAttention.apply(q, k, v, dropout)
    return attention(q, k, v, dropout_p=dropout, is_causal=True)


def attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention with its `options`, on a GPU of widened heads."""
    on_device = widened_attention if q.device.type == "cuda" else F.scaled_dot_product_attention
    return on_device(q, k, v, **options)


def widened_attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    **options: Any,
) -> Float[Tensor, "batch heads n d_head"]:
    """torch's scaled_dot_product_attention of heads filled up with zeros, which change no product and no mean."""
    d = q.shape[-1]
    wide = (F.pad(t, (0, -d % ALIGNMENT)) for t in (q, k, v))
    return F.scaled_dot_product_attention(*wide, scale=d**-0.5, **options)[..., :d]


class _CausalAttention(torch.autograd.Function):
    """The compiled kernel for autograd; q, k and v have the shape (batch, heads, n, d_head)."""

    @staticmethod
    def forward(ctx, q, k, v, dropout):
        if not q.shape == k.shape == v.shape:
            raise ValueError(
                f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}: expected equal shapes"
            )
        shape, d = q.shape, q.shape[-1]
        kept = key = None
        threshold = round((1 - dropout) * 2**16)
        ctx.scales = d**-0.5, 1.0, 2**16 / threshold
        q, k, v = (
            kernels.columns(t * scale).flatten(0, 1) for t, scale in zip((q, k, v), ctx.scales, strict=True)
        )
        out = torch.empty_like(q)
        log_total = out.new_empty(len(q), kernels.used(shape[-2]))
        norms = [t[..., : log_total.shape[1]].square().sum(dim=1).sqrt() for t in (q, k)]
        bound = norms[0] * norms[1].cummax(dim=1).values
        if dropout:
            kept, key = kernels.empty_kept(*log_total.shape), tuple(torch.randint(2**32, (2,)).tolist())

        def compute(heads: slice) -> None:
            arrays = [None if t is None else t[heads].numpy() for t in (q, k, v, bound, kept, out, log_total)]
            if dropout:
                kernels.draw_kept(arrays[4], heads.start, key, threshold)
            kernels.attention_forward(*arrays, kernels.unrolled(d))

        with compilation_notice(*kernels.COMPILING):
            parallel.each(compute, parallel.shares(len(q)))
        ctx.save_for_backward(q, k, v, kept, out, log_total)
        return _rows(out, shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        shape, d = grad.shape, grad.shape[-1]
        columns = kernels.columns(grad).flatten(0, 1)
        grads = [torch.zeros_like(columns) for _ in range(3)]
        q, k, v, kept, out, log_total = ctx.saved_tensors
        all_of = (q, k, v, kept, out, log_total, columns, *grads)

        def compute(heads: slice) -> None:
            arrays = [None if t is None else t[heads].numpy() for t in all_of]
            kernels.attention_backward(*arrays, kernels.unrolled(d))

        with compilation_notice(*kernels.COMPILING):
            parallel.each(compute, parallel.shares(len(columns)))
        return *(_rows(g, shape) * scale for g, scale in zip(grads, ctx.scales, strict=True)), None


def _rows(
    t: Float[Tensor, "heads_of_all rows columns"], shape: torch.Size
) -> Float[Tensor, "batch heads n d_head"]:
    """What `kernels.columns` makes of a tensor of this shape, turned back."""
    *heads, n, d = shape
    return t[:, :d, :n].unflatten(0, heads).mT
