"""Cross-entropy of a linear readout that never holds the logits.

At hidden size 8 the model is almost nothing and the readout almost everything: 2,048 tokens times 50,257 entries are
400 MB of logits, and their softmax and gradient as much again. Here a few tokens at a time pass over the
vocabulary, once, and leave the loss and both gradients behind.

What makes one pass enough is the shift. Softmax needs exp(logit - shift) without overflow, for which one usually
takes the largest logit and so a pass of its own. By Cauchy and Schwarz no logit h.w exceeds |h| max|w|, which is
known beforehand. Nor is any below its negative, so with this shift all exponents lie in [-2 |h| max|w|, 0]:
while that is above -80, every exponential is a normal float32 and nothing is lost. Where it is not, the kernel
takes the largest logit after all.
"""

from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from layernorm_roles.language_model.compiled import SAFE_SHIFT, exp, inlined, jit

Result = tuple[Float[Tensor, ""], Float[Tensor, "tokens d"], Float[Tensor, "entries d"]]
"""Mean loss, and its gradients with respect to the hidden states and the weight."""


def linear_cross_entropy(
    hidden: Float[Tensor, "tokens d"], weight: Float[Tensor, "entries d"], targets: Integer[Tensor, " tokens"]
) -> Float[Tensor, ""]:
    """Mean over the tokens of -log softmax(hidden @ weight.T)[target], in nats; differentiable once.

    Equal to torch.nn.functional.cross_entropy(hidden @ weight.T, targets) up to rounding (float32: 1e-6 relative).
    """
    return _LinearCrossEntropy.apply(hidden, weight, targets)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, targets):
        loss, hidden_grad, weight_grad = choose(hidden)(hidden, weight, targets)
        ctx.save_for_backward(hidden_grad, weight_grad)
        return loss

    @staticmethod
    def backward(ctx, grad):
        hidden_grad, weight_grad = ctx.saved_tensors
        return grad * hidden_grad, grad * weight_grad, None


def choose(hidden: Tensor) -> Callable[[Tensor, Tensor, Tensor], Result]:
    """The kernel for tensors like `hidden`: the one place that knows which there are."""
    if hidden.dtype == torch.float32 and hidden.device.type == "cpu":
        return fused
    if hidden.dtype == torch.float32 and hidden.device.type == "cuda" and find_spec("triton"):
        # Here, because Triton comes with CUDA builds of torch only.
        from layernorm_roles.language_model.triton_cross_entropy import WIDEST, blocked

        if hidden.shape[1] <= WIDEST:
            return blocked
    return chunked


def chunked(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int = 64) -> Result:
    """`chunk` tokens at a time, as matrix products: any device and precision.

    With w' = (w, 1) and h' = (h, -shift), exp(h' w'^T) are the shifted exponentials e, and e w' holds, in one
    product, both sum(e w), the gradient's numerator, and sum(e), the softmax's denominator.
    """
    tokens, d = hidden.shape
    bound = hidden.norm(dim=1, keepdim=True) * weight.norm(dim=1).max()
    extended = torch.cat([weight, weight.new_ones(len(weight), 1)], dim=1)
    hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
    losses = hidden.new_empty(tokens)
    # A GPU does not wait for a number: it always looks for the largest logit.
    safe = not hidden.is_cuda and bool((bound <= SAFE_SHIFT).all())
    for start in range(0, tokens, chunk):
        rows = slice(start, start + chunk)
        h, target = hidden[rows], targets[rows]
        shift = bound[rows] if safe else (h @ weight.T).amax(dim=1, keepdim=True)
        e = (torch.cat([h, -shift], dim=1) @ extended.T).exp_()
        sums = e @ extended
        total = sums[:, d:]
        wanted = weight[target]
        losses[rows] = (total.log() + shift).squeeze(1) - (h * wanted).sum(dim=1)
        hidden_grad[rows] = sums[:, :d] / total - wanted
        weight_grad.addmm_(e.T, h / total)
    weight_grad.index_add_(0, targets, hidden, alpha=-1.0)
    return losses.mean(), hidden_grad / tokens, weight_grad / tokens


LANES = 8
"""The kernel's unrolled width: hidden sizes are padded with zeros to a multiple of it."""
TOGETHER = 4
"""Tokens that share one pass over the weight's gradient."""


def fused(hidden: Tensor, weight: Tensor, targets: Tensor) -> Result:
    """On the CPU in float32: the whole sweep in one compiled loop, exponentials in vector registers."""
    tokens, d = hidden.shape
    padding = (0, -d % LANES)
    columns = torch.nn.functional.pad(weight, padding).T.contiguous()
    h = torch.nn.functional.pad(hidden, padding).contiguous()
    h_grad, columns_grad = torch.zeros_like(h), torch.zeros_like(columns)
    bound = (hidden.norm(dim=1) * weight.norm(dim=1).max()).numpy()
    if not np.isfinite(bound).all():
        # The compiled loop assumes finite numbers; a diverged training must show as what it is.
        return chunked(hidden, weight, targets)
    arrays = (t.numpy() for t in (h, columns, targets, h_grad, columns_grad))
    loss = _sweep(*arrays, bound) / tokens
    return hidden.new_tensor(loss), h_grad[:, :d] / tokens, columns_grad[:d].T.contiguous() / tokens


@jit
def _sweep(h, w, targets, h_grad, w_grad, bound):
    """Sum of the losses; adds the gradients of that sum to h_grad (tokens, d) and w_grad (d, entries)."""
    tokens, d = h.shape
    entries = w.shape[1]
    e = np.empty((TOGETHER, entries), np.float32)
    factor = np.empty((TOGETHER, d), np.float32)
    loss = 0.0
    for first in range(0, tokens, TOGETHER):
        group = min(TOGETHER, tokens - first)
        e[group:] = 0
        factor[group:] = 0
        for g in range(group):
            loss += _token(
                h[first + g], w, targets[first + g], h_grad[first + g], bound[first + g], e[g], factor[g]
            )
        for j in range(d):
            f0, f1, f2, f3 = factor[0, j], factor[1, j], factor[2, j], factor[3, j]
            out, e0, e1, e2, e3 = w_grad[j], e[0], e[1], e[2], e[3]
            for v in range(entries):
                out[v] += e0[v] * f0 + e1[v] * f1 + e2[v] * f2 + e3[v] * f3
    for t in range(tokens):
        for j in range(d):
            w_grad[j, targets[t]] -= h[t, j]
    return loss


@inlined
def _token(h, w, target, h_grad, bound, e, factor):
    """One token's loss; leaves its exponentials in `e`, and in `factor` what they contribute to w_grad."""
    d, entries = w.shape
    e[:] = 0
    for j in range(0, d, LANES):
        h0, h1, h2, h3, h4, h5, h6, h7 = (
            h[j],
            h[j + 1],
            h[j + 2],
            h[j + 3],
            h[j + 4],
            h[j + 5],
            h[j + 6],
            h[j + 7],
        )
        w0, w1, w2, w3, w4, w5, w6, w7 = (
            w[j],
            w[j + 1],
            w[j + 2],
            w[j + 3],
            w[j + 4],
            w[j + 5],
            w[j + 6],
            w[j + 7],
        )
        for v in range(entries):
            e[v] += (w0[v] * h0 + w1[v] * h1 + w2[v] * h2 + w3[v] * h3) + (
                w4[v] * h4 + w5[v] * h5 + w6[v] * h6 + w7[v] * h7
            )
    wanted = e[target]
    shift = np.float32(bound)
    if bound > SAFE_SHIFT:
        shift = e.max()
    total = np.float32(0)
    for v in range(entries):
        e[v] = exp(e[v] - shift)
        total += e[v]
    for j in range(0, d, LANES):
        w0, w1, w2, w3, w4, w5, w6, w7 = (
            w[j],
            w[j + 1],
            w[j + 2],
            w[j + 3],
            w[j + 4],
            w[j + 5],
            w[j + 6],
            w[j + 7],
        )
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = np.float32(0)
        for v in range(entries):
            s0 += e[v] * w0[v]
            s1 += e[v] * w1[v]
            s2 += e[v] * w2[v]
            s3 += e[v] * w3[v]
            s4 += e[v] * w4[v]
            s5 += e[v] * w5[v]
            s6 += e[v] * w6[v]
            s7 += e[v] * w7[v]
        for i, s in enumerate((s0, s1, s2, s3, s4, s5, s6, s7)):
            h_grad[j + i] += s / total - w[j + i, target]
    for j in range(d):
        factor[j] = h[j] / total
    return np.log(np.float64(total)) + shift - wanted
