"""Cross-entropy of a linear readout on a GPU, in Triton: no logit leaves the registers.

The kernels take two passes over all pairs of a token and an entry of the vocabulary. In the first, a program owns a
block of tokens and walks over the vocabulary with a running maximum, for the log-sum-exp and the hidden states'
gradient; in the second, it owns a block of the vocabulary and walks over the tokens, for the weight's gradient, which
with the log-sum-exp known is

    d loss / d w_v = sum_t (exp(h_t.w_v - lse_t) - [v = target_t]) h_t.

Tensor cores would round the logits to TF32's ten bits: these are plain float32 multiply-adds. A thread owns its
tokens (or entries) alone, so that its sums stay in its registers. To fill the GPU a walk is cut into shares, whose
sums are added in a fixed order, without atomics: equal inputs give equal bytes. Nothing waits for the host, so that a
CUDA graph can hold the kernels.

They are tested in Triton's interpreter and compiled for an H100, but have not run on a GPU: their speed is unknown.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from jaxtyping import Float, Integer
from torch import Tensor

from layernorm_roles.language_model.cross_entropy import LossAndGradients

OWN, OTHER = 64, 16
"""Tokens (or entries) that a program owns, two a thread, and entries (or tokens) that it takes at a time."""
PROGRAMS = 4096
"""About as many one-warp programs as keep an H100 at work. It is a constant, so that the bytes depend on no GPU."""
LOWEST = tl.constexpr(-3.0e38)
"""A number below every finite logit that, unlike -inf, can be subtracted from itself."""


def blocked(
    hidden: Float[Tensor, "tokens d"],
    weight: Float[Tensor, "entries d"],
    targets: Integer[Tensor, " tokens"],
) -> LossAndGradients:
    """The loss and its gradients, for float32 CUDA tensors with at most `WIDEST_IN_REGISTERS` features."""
    (tokens, d), entries = hidden.shape, len(weight)
    h, w = _whole_blocks(hidden.T), _whole_blocks(weight.T)
    constants = {"D": d, "OWN": OWN, "OTHER": OTHER, "num_warps": 1}

    grid, share = _shares(h.shape[1], w.shape[1])
    parts = hidden.new_empty(grid[1], d + 2, h.shape[1])
    _over_entries[grid](h, w, parts, h.shape[1], w.shape[1], entries, share, **constants)
    parts = parts[:, :, :tokens]
    shift = parts[:, 0].amax(dim=0)
    total, *sums = (parts[:, 1:] * (parts[:, :1] - shift).exp()).sum(dim=0)
    log_total = shift + total.log()
    wanted = weight[targets]
    loss = (log_total - (hidden * wanted).sum(dim=1)).mean()
    hidden_grad = torch.stack(sums, dim=1) / total[:, None] - wanted

    grid, share = _shares(w.shape[1], h.shape[1])
    parts = hidden.new_empty(grid[1], d, w.shape[1])
    # For what fills up the last block of tokens every probability is exp(-inf) = 0.
    rest = (_whole_blocks(log_total, torch.inf), _whole_blocks(targets.int(), -1))
    _over_tokens[grid](w, h, *rest, parts, w.shape[1], h.shape[1], share, **constants)
    weight_grad = parts.sum(dim=0)[:, :entries].T
    return loss, hidden_grad / tokens, weight_grad.contiguous() / tokens


def _whole_blocks(columns: Tensor, value: float = 0.0) -> Tensor:
    """`columns` with the last axis filled up to whole blocks: loads need no mask and move 16 bytes at a time."""
    return F.pad(columns, (0, -columns.shape[-1] % OWN), value=value).contiguous()


def _shares(own: int, other: int) -> tuple[tuple[int, int], int]:
    """The grid, (blocks of the `own` columns, shares of the `other` ones), and the length of a share."""
    blocks = own // OWN
    share = OTHER * triton.cdiv(other, OTHER * triton.cdiv(PROGRAMS, blocks))
    return (blocks, triton.cdiv(other, share)), share


@triton.jit
def _over_entries(
    h,
    w,
    parts,
    tokens,
    entries,
    real_entries,
    share,
    D: tl.constexpr,
    OWN: tl.constexpr,
    OTHER: tl.constexpr,
):
    """First pass: write to `parts` (shares, D + 2, tokens) what every share of the vocabulary adds for a token.

    The rows are the largest logit and, with e = exp(logit - largest), the sums of e and of e w.
    """
    own = tl.program_id(0) * OWN + tl.arange(0, OWN)
    own_features = _features(h, own, tokens, D)
    largest = tl.full([OWN], LOWEST, tl.float32)
    total = tl.zeros([OWN], tl.float32)
    sums = _zeros(D, OWN)
    first = tl.program_id(1) * share
    for start in range(first, min(first + share, entries), OTHER):
        other = start + tl.arange(0, OTHER)
        other_features = _features(w, other, entries, D)
        logits = tl.where(
            (other < real_entries)[:, None], _products(other_features, own_features, D), float("-inf")
        )
        higher = tl.maximum(largest, tl.max(logits, axis=0))
        kept = tl.exp(largest - higher)
        e = tl.exp(logits - higher[None, :])
        total = total * kept + tl.sum(e, axis=0)
        sums = _add(sums, kept, e, other_features, D)
        largest = higher
    row = parts + tl.program_id(1) * (D + 2) * tokens + own
    tl.store(row, largest)
    tl.store(row + tokens, total)
    for j in tl.static_range(D):
        tl.store(row + (j + 2) * tokens, sums[j])


@triton.jit
def _over_tokens(
    w,
    h,
    log_total,
    targets,
    parts,
    entries,
    tokens,
    share,
    D: tl.constexpr,
    OWN: tl.constexpr,
    OTHER: tl.constexpr,
):
    """Second pass: write to `parts` (shares, D, entries) what every share of the tokens adds for an entry.

    The rows are the sum over the tokens of (probability - [entry = target]) h.
    """
    own = tl.program_id(0) * OWN + tl.arange(0, OWN)
    own_features = _features(w, own, entries, D)
    sums = _zeros(D, OWN)
    first = tl.program_id(1) * share
    for start in range(first, min(first + share, tokens), OTHER):
        other = start + tl.arange(0, OTHER)
        other_features = _features(h, other, tokens, D)
        e = tl.exp(_products(other_features, own_features, D) - tl.load(log_total + other)[:, None])
        e -= (tl.load(targets + other)[:, None] == own[None, :]).to(tl.float32)
        sums = _add(sums, 1.0, e, other_features, D)
    row = parts + tl.program_id(1) * D * entries + own
    for j in tl.static_range(D):
        tl.store(row + j * entries, sums[j])


@triton.jit
def _features(matrix, columns, size, D: tl.constexpr):
    """The columns numbered `columns` of a (D, size) matrix, as D vectors."""
    found = ()
    for j in tl.static_range(D):
        found += (tl.load(matrix + j * size + columns),)
    return found


@triton.jit
def _zeros(D: tl.constexpr, OWN: tl.constexpr):
    """D vectors of OWN zeros."""
    zeros = ()
    for _ in tl.static_range(D):
        zeros += (tl.zeros([OWN], tl.float32),)
    return zeros


@triton.jit
def _products(other_features, own_features, D: tl.constexpr):
    """The scalar products (OTHER, OWN) of all pairs of columns."""
    products = other_features[0][:, None] * own_features[0][None, :]
    for j in tl.static_range(1, D):
        products += other_features[j][:, None] * own_features[j][None, :]
    return products


@triton.jit
def _add(sums, kept, e, other_features, D: tl.constexpr):
    """`sums` times `kept`, plus the sum over the other columns of their features times e."""
    added = ()
    for j in tl.static_range(D):
        added += (sums[j] * kept + tl.sum(e * other_features[j][:, None], axis=0),)
    return added
