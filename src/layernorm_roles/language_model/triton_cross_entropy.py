"""The same cross-entropy on a GPU, in Triton: no logit leaves the registers.

Two passes over all (token, entry) pairs. In the first, a program owns a block of tokens and walks over the
vocabulary with a running maximum, for the log-sum-exp and the hidden states' gradient; in the second, it owns a block
of the vocabulary and walks over the tokens, for the weight's gradient, which with the log-sum-exp known is

    d loss / d w_v = sum_t (exp(h_t.w_v - lse_t) - [v = target_t]) h_t.

Tensor cores would round the logits to TF32's ten bits: these are plain float32 multiply-adds. A thread owns its
tokens (or entries) alone, so that its sums stay in its registers. To fill the GPU a walk is cut into shares, whose
sums are added in a fixed order, without atomics: the same input gives the same bytes.
Nothing waits for the host, so that a CUDA graph can hold it.

Tested in Triton's interpreter and compiled for an H100, but not yet run on a GPU: its speed is not measured.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from layernorm_roles.language_model.cross_entropy import Result

WIDEST = 9
"""Largest hidden size: a thread holds that many features of each of its tokens, and as many sums. With more, the
compiler for an H100 (sm_90) runs out of registers; BERT's is 8 and one for the readout's bias."""
OWN, OTHER = 64, 16
"""Tokens (or entries) that a program owns, two a thread; entries (or tokens) that it takes at a time."""
PROGRAMS = 4096
"""About as many one-warp programs as keep an H100 at work. A constant: the bytes depend on no GPU's size."""
LOWEST = tl.constexpr(-3.0e38)
"""Below every finite logit, and unlike -inf it can be subtracted from itself."""


def blocked(hidden: Tensor, weight: Tensor, targets: Tensor) -> Result:
    """`cross_entropy.chunked` for float32 CUDA tensors with at most `WIDEST` dimensions."""
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
    # Behind the last token every probability is exp(-inf) = 0.
    rest = (_whole_blocks(log_total, torch.inf), _whole_blocks(targets.int(), -1))
    _over_tokens[grid](w, h, *rest, parts, w.shape[1], h.shape[1], share, **constants)
    weight_grad = parts.sum(dim=0)[:, :entries].T
    return loss, hidden_grad / tokens, weight_grad.contiguous() / tokens


def _whole_blocks(columns: Tensor, value: float = 0.0) -> Tensor:
    """The last axis filled up to whole blocks: loads and stores then need no mask and move 16 bytes at a time."""
    return F.pad(columns, (0, -columns.shape[-1] % OWN), value=value).contiguous()


def _shares(own: int, other: int) -> tuple[tuple[int, int], int]:
    """The grid (blocks of what is owned, shares of the rest) and the length of a share."""
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
    """parts (shares, D + 2, tokens): a share's largest logit, then with e = exp(logit - largest) sum e, sum e w."""
    own = tl.program_id(0) * OWN + tl.arange(0, OWN)
    mine = _features(h, own, tokens, D)
    largest = tl.full([OWN], LOWEST, tl.float32)
    total = tl.zeros([OWN], tl.float32)
    sums = _zeros(D, OWN)
    first = tl.program_id(1) * share
    for start in range(first, min(first + share, entries), OTHER):
        other = start + tl.arange(0, OTHER)
        theirs = _features(w, other, entries, D)
        logits = tl.where((other < real_entries)[:, None], _products(theirs, mine, D), float("-inf"))
        higher = tl.maximum(largest, tl.max(logits, axis=0))
        kept = tl.exp(largest - higher)
        e = tl.exp(logits - higher[None, :])
        total = total * kept + tl.sum(e, axis=0)
        sums = _add(sums, kept, e, theirs, D)
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
    """parts (shares, D, entries): the sum over a share's tokens of (probability - [entry = target]) h."""
    own = tl.program_id(0) * OWN + tl.arange(0, OWN)
    mine = _features(w, own, entries, D)
    sums = _zeros(D, OWN)
    first = tl.program_id(1) * share
    for start in range(first, min(first + share, tokens), OTHER):
        other = start + tl.arange(0, OTHER)
        theirs = _features(h, other, tokens, D)
        e = tl.exp(_products(theirs, mine, D) - tl.load(log_total + other)[:, None])
        e -= (tl.load(targets + other)[:, None] == own[None, :]).to(tl.float32)
        sums = _add(sums, 1.0, e, theirs, D)
    row = parts + tl.program_id(1) * D * entries + own
    for j in tl.static_range(D):
        tl.store(row + j * entries, sums[j])


@triton.jit
def _features(matrix, columns, size, D: tl.constexpr):
    """`columns` of a (D, size) matrix, as D vectors."""
    found = ()
    for j in tl.static_range(D):
        found += (tl.load(matrix + j * size + columns),)
    return found


@triton.jit
def _zeros(D: tl.constexpr, OWN: tl.constexpr):
    zeros = ()
    for _ in tl.static_range(D):
        zeros += (tl.zeros([OWN], tl.float32),)
    return zeros


@triton.jit
def _products(theirs, mine, D: tl.constexpr):
    """Scalar products of all pairs, (OTHER, OWN)."""
    products = theirs[0][:, None] * mine[0][None, :]
    for j in tl.static_range(1, D):
        products += theirs[j][:, None] * mine[j][None, :]
    return products


@triton.jit
def _add(sums, kept, e, theirs, D: tl.constexpr):
    """sums * kept + the sum over the others of e times their features."""
    added = ()
    for j in tl.static_range(D):
        added += (sums[j] * kept + tl.sum(e * theirs[j][:, None], axis=0),)
    return added
