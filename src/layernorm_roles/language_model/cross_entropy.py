"""Cross-entropy of logits that are a linear function of hidden states, computed without storing all logits.

At hidden size 8 almost all computation is in the logits: for 2,048 tokens and a vocabulary of 50,257 entries they take
400 MB, and their softmax and gradient as much again. Here loss and both gradients are computed for a few tokens at a
time, in one pass over the vocabulary: the softmax's shift, usually the largest logit, is a bound that is known before.
By the Cauchy-Schwarz inequality no logit h.w exceeds |h| max|w| in magnitude. With this bound as shift, all exponents
lie in [-2 |h| max|w|, 0]: where that is above -80, every exponential is a normal float32 number and no accuracy is
lost. Elsewhere, and always on a GPU, another pass searches for the largest logit.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from layernorm_roles.language_model import parallel
from layernorm_roles.language_model.kernels import cross_entropy as kernels
from layernorm_roles.language_model.kernels import softmax
from layernorm_roles.slices import slices

LossAndGradients = tuple[
    Float[Tensor, ""], Float[Tensor, "tokens d"] | None, Float[Tensor, "entries d"] | None
]
"""The mean loss, and its gradients with respect to hidden states and readout weight, or None if they are not wanted."""


def linear_cross_entropy(
    hidden: Float[Tensor, "tokens d"], weight: Float[Tensor, "entries d"], targets: Integer[Tensor, " tokens"]
) -> Float[Tensor, ""]:
    """The mean over tokens of -log softmax(hidden @ weight.T)[target], in nats; it can be differentiated once.

    It equals torch.nn.functional.cross_entropy(hidden @ weight.T, targets), in float32 up to a relative error of 1e-6.
    """
    # Asked here, since within an autograd function gradients are never enabled.
    return _LinearCrossEntropy.apply(hidden, weight, targets, torch.is_grad_enabled())


class _LinearCrossEntropy(torch.autograd.Function):
    """The autograd function behind `linear_cross_entropy`: its forward pass computes the gradients with the loss."""

    @staticmethod
    def forward(ctx, hidden, weight, targets, gradients):
        in_loop = hidden.dtype == torch.float32 and hidden.device.type == "cpu"
        compute = fused if in_loop else chunked
        loss, hidden_grad, weight_grad = compute(hidden, weight, targets, gradients=gradients)
        ctx.save_for_backward(hidden_grad, weight_grad)
        return loss

    @staticmethod
    def backward(ctx, grad):
        hidden_grad, weight_grad = ctx.saved_tensors
        return grad * hidden_grad, grad * weight_grad, None, None


TOKENS_ON_CPU, LOGITS_ON_GPU = 64, 2**28
"""Tokens in a matrix product of `chunked` on a CPU, whose cache they fit; logits in one on a GPU, where each product
costs some 19 launches: 1 GB at a time."""


def chunked(
    hidden: Float[Tensor, "tokens d"],
    weight: Float[Tensor, "entries d"],
    targets: Integer[Tensor, " tokens"],
    gradients: bool = True,
) -> LossAndGradients:
    """`fused` by torch's operations, on any device and in any precision, for a slice of the tokens at a time.

    torch 2.13's F.linear_cross_entropy would not do: by default it takes 2 tokens at a time where d is 8.
    """
    tokens, d = hidden.shape
    bound = hidden.norm(dim=1, keepdim=True) * weight.norm(dim=1).max()
    extended = torch.cat([weight, weight.new_ones(len(weight), 1)], dim=1)
    hidden_grad, weight_grad = torch.empty_like(hidden), torch.zeros_like(weight)
    losses = hidden.new_empty(tokens)
    # To read a number would make a GPU wait: there every token's largest logit is looked for.
    safe = not hidden.is_cuda and bool((bound <= softmax.SAFE_SHIFT).all())
    together = LOGITS_ON_GPU // len(weight) if hidden.is_cuda else TOKENS_ON_CPU
    for rows in slices(tokens, together):
        h, target = hidden[rows], targets[rows]
        shift = bound[rows] if safe else (h @ weight.T).amax(dim=1, keepdim=True)
        e = (torch.cat([h, -shift], dim=1) @ extended.T).exp_()
        sums = e @ extended if gradients else e.sum(dim=1, keepdim=True)
        total = sums[:, -1:]
        wanted = weight[target]
        losses[rows] = (total.log() + shift).squeeze(1) - (h * wanted).sum(dim=1)
        if gradients:
            hidden_grad[rows] = sums[:, :d] / total - wanted
            weight_grad.addmm_(e.T, h / total)
    if not gradients:
        return losses.mean(), None, None
    weight_grad.index_add_(0, targets, hidden, alpha=-1.0)
    return losses.mean(), hidden_grad / tokens, weight_grad / tokens


def fused(
    hidden: Float[Tensor, "tokens d"],
    weight: Float[Tensor, "entries d"],
    targets: Integer[Tensor, " tokens"],
    gradients: bool = True,
) -> LossAndGradients:
    """The mean cross-entropy, in nats per token, of the logits hidden @ weight.T, and its gradients, by a CPU kernel.

    The gradients are with respect to `hidden` and `weight`, both float32; they are None if `gradients` is false. Raises
    ValueError if a target is not the index of a row of `weight`.
    """
    tokens, d = hidden.shape
    if targets.min() < 0 or targets.max() >= len(weight):
        raise ValueError(
            f"targets from {targets.min()} to {targets.max()}: expected numbers from 0 to {len(weight) - 1}"
        )
    bound = hidden.norm(dim=1) * weight.norm(dim=1).max()
    if not bound.isfinite().all():
        # The compiled loop assumes finite numbers; the loss of a diverged model must not look like one.
        return chunked(hidden, weight, targets, gradients=gradients)
    w, per_token = softmax.columns(weight), F.pad(bound, (0, softmax.padded(tokens) - tokens))
    hidden_grad = torch.empty_like(hidden)

    def compute(part: slice) -> tuple[float, Tensor]:
        h = softmax.columns(hidden[part])
        h_grad, w_grad = torch.zeros_like(h), torch.zeros_like(w)
        bounds = per_token[part.start : part.start + softmax.padded(part.stop - part.start)]
        arrays = (t.numpy() for t in (h, w, targets[part], h_grad, w_grad, bounds))
        loss = kernels.cross_entropy_sweep(*arrays, len(weight), softmax.unrolled(d), gradients)
        torch.div(h_grad[:d, : part.stop - part.start].T, tokens, out=hidden_grad[part])
        return loss, w_grad

    losses, w_grads = zip(*parallel.each(compute, slices(tokens, parallel.TOKENS)), strict=True)
    loss = hidden.new_tensor(sum(losses) / tokens)
    if not gradients:
        return loss, None, None
    return loss, hidden_grad, sum(w_grads[1:], w_grads[0])[:d, : len(weight)].T / tokens
