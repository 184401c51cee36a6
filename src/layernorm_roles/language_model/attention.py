"""Causal attention, softmax(q k' / sqrt(d_head)) v, made for heads of very few dimensions.

General kernels fill vector registers with a head's dimensions, of which there are two here. On the CPU in float32
this one fills them with keys, and never holds the matrix of scores: the backward pass makes each row again
from the row's log-sum-exp. Everywhere else, and with dropout, it is torch's scaled_dot_product_attention, on a GPU
with heads made wide enough for its kernels.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from layernorm_roles.language_model.compiled import SAFE_SHIFT, exp, inlined, jit

WIDEST_HEAD = 8
"""From about here on torch's own kernel is faster."""
ALIGNMENT = 8
"""Torch's fused CUDA kernels load 16 bytes at a time: 4 numbers of float32, 8 of half precision. Other heads get the
kernel that writes the matrix of scores to memory. What the difference is has not been measured."""


def causal_attention(
    q: Float[Tensor, "batch heads n d_head"],
    k: Float[Tensor, "batch heads n d_head"],
    v: Float[Tensor, "batch heads n d_head"],
    dropout: float = 0.0,
) -> Float[Tensor, "batch heads n d_head"]:
    """Each query's mean of the values up to its own position, weighted by softmax; differentiable once."""
    if q.device.type == "cpu" and q.dtype == torch.float32 and not dropout and q.shape[-1] <= WIDEST_HEAD:
        return _CausalAttention.apply(q, k, v)
    return attention(q, k, v, dropout_p=dropout, is_causal=True)


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """torch's scaled_dot_product_attention with its `options`, on a GPU on widened heads."""
    by_device = widened_attention if q.device.type == "cuda" else F.scaled_dot_product_attention
    return by_device(q, k, v, **options)


def widened_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """The same on heads filled up with zeros, which change no product and no mean."""
    d = q.shape[-1]
    wide = (F.pad(t, (0, -d % ALIGNMENT)) for t in (q, k, v))
    return F.scaled_dot_product_attention(*wide, scale=d**-0.5, **options)[..., :d]


class _CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        shape = q.shape
        # (batch x heads, d_head, n): the loops run along the keys.
        columns = [t.flatten(0, 1).mT.contiguous() for t in (q / shape[-1] ** 0.5, k, v)]
        out = torch.empty_like(columns[0])
        log_total = out.new_empty(len(out), shape[-2])
        norms = [t.square().sum(dim=1).sqrt() for t in columns[:2]]
        bound = norms[0] * norms[1].cummax(dim=1).values
        _forward(*(t.numpy() for t in (*columns, bound, out, log_total)))
        ctx.save_for_backward(*columns, out, log_total)
        return out.mT.reshape(shape)

    @staticmethod
    def backward(ctx, grad):
        columns = grad.flatten(0, 1).mT.contiguous()
        grads = [torch.zeros_like(columns) for _ in range(3)]
        _backward(*(t.numpy() for t in (*ctx.saved_tensors, columns, *grads)))
        grads[0] /= grad.shape[-1] ** 0.5
        return tuple(g.mT.reshape(grad.shape) for g in grads)


@jit
def _forward(q, k, v, bound, out, log_total):
    heads, d, n = q.shape
    e = np.empty(n, np.float32)
    for h in range(heads):
        for i in range(n):
            _scores(q[h], k[h], i, e)
            shift = bound[h, i]
            if shift > SAFE_SHIFT:
                shift = e[: i + 1].max()
            total = np.float32(0)
            for j in range(i + 1):
                e[j] = exp(e[j] - shift)
                total += e[j]
            for c in range(d):
                row, mean = v[h, c], np.float32(0)
                for j in range(i + 1):
                    mean += e[j] * row[j]
                out[h, c, i] = mean / total
            log_total[h, i] = np.log(total) + shift


@jit
def _backward(q, k, v, out, log_total, out_grad, q_grad, k_grad, v_grad):
    """Adds to q_grad, k_grad, v_grad. With p the weights of one query: ds = p (v.dout - out.dout)."""
    heads, d, n = q.shape
    p, ds = np.empty(n, np.float32), np.empty(n, np.float32)
    for h in range(heads):
        for i in range(n):
            _scores(q[h], k[h], i, p)
            ds[: i + 1] = 0
            mean = np.float32(0)
            for c in range(d):
                row, g = v[h, c], out_grad[h, c, i]
                mean += g * out[h, c, i]
                for j in range(i + 1):
                    ds[j] += g * row[j]
            for j in range(i + 1):
                p[j] = exp(p[j] - log_total[h, i])
                ds[j] = p[j] * (ds[j] - mean)
            for c in range(d):
                g, query, sum_q = out_grad[h, c, i], q[h, c, i], np.float32(0)
                row, row_k, row_v = k[h, c], k_grad[h, c], v_grad[h, c]
                for j in range(i + 1):
                    sum_q += ds[j] * row[j]
                    row_k[j] += ds[j] * query
                    row_v[j] += p[j] * g
                q_grad[h, c, i] = sum_q


@inlined
def _scores(q, k, i, e):
    """e[j] = q_i . k_j for the keys j <= i."""
    e[: i + 1] = 0
    for c in range(len(q)):
        query, row = q[c, i], k[c]
        for j in range(i + 1):
            e[j] += query * row[j]
