"""Small transformers with LayerNorm before each part of a layer, after each residual sum, or nowhere; their training.

    pre     x = x + part(norm(x))        and one norm before the readout
    post    x = norm(x + part(x))
    none    x = x + part(x)              untrained networks alone

Here x is the residual stream, and part is attention or feed-forward. Without the residual connection x + is left out.
Many transformers of one shape, called runs, are computed together, each from one row of a matrix of parameters.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn import functional

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.script import Progress

Rows = Float[Tensor, "runs p"]
"""The parameters of several transformers of one shape, called runs, as a matrix with a row for each."""
Matrices = list[Float[Tensor, "runs _ _"]]
"""The parameter matrices of several transformers of one shape (runs), in the order of `TransformerShape.parameters`."""
Tokens = Integer[np.ndarray, " n"]
Windows = Int[Tensor, "runs batch tokens"]
"""Token ids of a batch of windows of a text for each of several transformers (runs)."""

BATCH = 4
"""Number of windows of the text in one training batch of a network."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's decay rates of its two running means, and the number that is added to the root of the second."""


class TransformerShape(NamedTuple):
    """Sizes and arrangement of a small transformer; `depth` is its number of layers.

    `placement` says where LayerNorm is: "pre" (before attention and feed-forward), "post" (after each residual sum) or
    "none". Without `residual` the output of attention or feed-forward replaces the residual stream: nothing is added.
    """

    placement: str
    depth: int
    d_model: int
    heads: int
    context_length: int
    vocabulary: int
    residual: bool = True

    def parameters(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the name and the shape (inputs, outputs) of every parameter matrix, in the order of storage.

        The order is embeddings, layers, last norm, readout. A gain or bias counts as a matrix with 1 input. There is a
        last norm for the placement "pre" only.
        """
        d = self.d_model
        yield "token", (self.vocabulary, d)
        yield "position", (self.context_length, d)
        for _ in range(self.depth):
            yield from {"gain_1": (1, d), "bias_1": (1, d), "qkv": (d, 3 * d), "out": (d, d)}.items()
            yield from {"gain_2": (1, d), "bias_2": (1, d), "up": (d, 4 * d), "down": (4 * d, d)}.items()
        # Post-norm ends in a norm already; pre-norm needs one before the readout.
        yield from {"gain": (1, d), "bias": (1, d)}.items() if self.placement == "pre" else ()
        yield "readout", (d, self.vocabulary)

    def matrices(self, rows: Rows) -> Matrices:
        """The parameter matrices of several transformers, as views of `rows`; a row has the parameters of one.

        A matrix has the shape (transformers, inputs, outputs); the order is that of `parameters`.
        """
        sizes = [size for _, size in self.parameters()]
        parts = rows.split([math.prod(size) for size in sizes], dim=1)
        return [part.view(-1, *size) for part, size in zip(parts, sizes, strict=True)]

    def first_layer(self) -> slice:
        """The slice of a transformer's row of parameters that holds the parameters of the first layer."""
        sizes = [math.prod(size) for _, size in self.parameters()]
        return slice(sum(sizes[:2]), sum(sizes[:10]))


def initial(shape: TransformerShape, seeds: Sequence[int]) -> Rows:
    """Draw the initial parameters of one transformer for each seed, as the rows of a matrix.

    Weight matrices have Xavier's normal distribution, embeddings have variance 0.5, gains are 1 and biases 0.
    """
    rows = []
    for seed in seeds:
        torch_generator, parts = torch.Generator().manual_seed(seed), []
        for name, (inputs, outputs) in shape.parameters():
            if name.startswith(("gain", "bias")):
                parts.append(torch.full((inputs * outputs,), float(name.startswith("gain"))))
                continue
            variance = 0.5 if name in ("token", "position") else 2 / (inputs + outputs)
            parts.append(torch.randn(inputs * outputs, generator=torch_generator) * variance**0.5)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def losses(
    shape: TransformerShape,
    matrices: Matrices,
    windows: Windows,
    observe: Callable[[Tensor], object] = lambda stream: None,
) -> Float[Tensor, " runs"]:
    """Mean next-token cross-entropy (nats per token) of each transformer on windows of context_length + 1 tokens.

    `observe` is called before each layer, with the residual streams as one tensor (runs, tokens of all windows, d).
    """
    runs, batch, context, d = *windows.shape[:2], shape.context_length, shape.d_model
    weights = iter(matrices)
    tokens, targets = windows[:, :, :-1].flatten(1), windows[:, :, 1:].flatten(1)

    def norm(x, gain, bias):
        return torch.addcmul(bias, functional.layer_norm(x, (d,), eps=1e-5), gain)

    def attention(x, qkv, out):
        q, k, v = (
            part.reshape(runs * batch, context, shape.heads, -1).transpose(1, 2)
            for part in (x @ qkv).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(runs, batch * context, d) @ out

    def feed_forward(x, up, down):
        return (x @ up).relu() @ down

    token, position = next(weights), next(weights)
    x = token.gather(1, tokens[:, :, None].expand(-1, -1, d)) + position.repeat(1, batch, 1)
    for _ in range(shape.depth):
        observe(x)
        for part in (attention, feed_forward):
            gain, bias, first, second = (next(weights) for _ in range(4))
            received = norm(x, gain, bias) if shape.placement == "pre" else x
            update = part(received, first, second)
            x = x + update if shape.residual else update
            if shape.placement == "post":
                x = norm(x, gain, bias)
    if shape.placement == "pre":
        x = norm(x, next(weights), next(weights))
    logits = x @ next(weights)
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=1)


def train(
    shape: TransformerShape, tokens: Tokens, runs: Sequence[tuple[float, int]], steps: int
) -> tuple[Float[np.ndarray, "runs steps"], Rows]:
    """Train a transformer for each (learning rate, seed) in `runs`; return training losses and final parameters.

    The loss of a step, in nats per token, is computed on the step's batch before the update; infinity stands for NaN.
    Adam has a constant learning rate, and gradients are not clipped. Runs of equal seed have equal initial parameters
    and batches.
    """
    draws = {seed: generator(Stream.PLACEMENT_BATCHES, seed) for _, seed in runs}
    parameters = initial(shape, [seed for _, seed in runs])
    gradient, mean, square, root = (torch.zeros_like(parameters) for _ in range(4))
    # Matrices share the memory of rows, over which Adam is a few long loops.
    leaves, slots = shape.matrices(parameters), shape.matrices(gradient)
    curve, progress = [], Progress(f"placement {shape.placement} depth {shape.depth}", steps, "steps")
    for step in range(steps):
        drawn = {seed: _windows(rng, tokens, shape.context_length) for seed, rng in draws.items()}
        batch = np.stack([drawn[seed] for _, seed in runs])
        curve.append(_differentiated(shape, leaves, slots, torch.from_numpy(batch)))
        with torch.no_grad():
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            torch.sqrt(square, out=root).div_((1 - BETAS[1] ** (step + 1)) ** 0.5).add_(EPS)
            for row, first, second, (rate, _) in zip(parameters, mean, root, runs, strict=True):
                row.addcdiv_(first, second, value=-rate / (1 - BETAS[0] ** (step + 1)))
        progress(step + 1, f"mean loss {curve[-1].mean():.2f}")
    return _finite(np.stack(curve, axis=1)), parameters.detach()


def reduce_vocabulary(tokens: Tokens, size: int) -> Int[np.ndarray, " n"]:
    """Replace token ids by their ranks in frequency, from 0 for the most frequent id, so that `size` ids are enough.

    All ids with a rank above `size` - 1 get the id `size` - 1.
    """
    values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse]


def untrained_norms(
    shape: TransformerShape, tokens: Tokens, seeds: Sequence[int]
) -> Float[np.ndarray, " runs"]:
    """The length of the loss's gradient in the first layer's parameters, for one untrained transformer per seed.

    The loss is that of one training batch. Infinity stands for NaN.
    """
    parameters = initial(shape, seeds)
    gradient = torch.zeros_like(parameters)
    draws = [generator(Stream.PLACEMENT_BATCHES, seed) for seed in seeds]
    batch = np.stack([_windows(rng, tokens, shape.context_length) for rng in draws])
    _differentiated(shape, shape.matrices(parameters), shape.matrices(gradient), torch.from_numpy(batch))
    return _finite(gradient[:, shape.first_layer()].norm(dim=1).numpy())


def _windows(rng: np.random.Generator, tokens: Tokens, context: int) -> Int[np.ndarray, "batch window"]:
    """A training batch: BATCH windows of `context` + 1 tokens at random places of the stream `tokens`."""
    starts = rng.integers(len(tokens) - context, size=BATCH)
    return tokens[starts[:, None] + np.arange(context + 1)]


def _differentiated(
    shape: TransformerShape, leaves: Matrices, slots: Matrices, batch: Windows
) -> Float[np.ndarray, " runs"]:
    """The loss of each run on `batch`; writes the gradients of parameters `leaves` to `slots`, but for unused ones."""
    loss = losses(shape, [leaf.requires_grad_() for leaf in leaves], batch)
    gradients = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
    for slot, part in zip(slots, gradients, strict=True):
        if part is not None:
            slot.copy_(part)
    return loss.detach().numpy()


def _finite(values: Float[np.ndarray, "*any"]) -> Float[np.ndarray, "*any"]:
    """The values, with infinity in place of what is no number: null would mean missing in a table."""
    return np.nan_to_num(values, nan=np.inf, posinf=np.inf)
