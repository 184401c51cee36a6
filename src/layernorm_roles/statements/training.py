"""Training of several small transformers of one shape at once, and the gradients of untrained ones."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int

from layernorm_roles.job import Progress
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.statements.transformer import (
    Matrices,
    Rows,
    Tokens,
    TransformerShape,
    Windows,
    initial,
    losses,
)

BATCH = 4
"""Number of windows of the text in one training batch of a network."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's decay rates of its two running means, and the number that is added to the root of the second."""
Run = tuple[float, int]
"""A training of a small transformer: its learning rate and its seed."""


def train(
    shape: TransformerShape, tokens: Tokens, runs: Sequence[Run], steps: int
) -> tuple[Float[np.ndarray, "runs steps"], Rows]:
    """Train a transformer for each of `runs` (learning rate, seed); return losses, and parameters after the last step.

    A loss, in nats per token, is that of a step's batch before the step; infinite if it is no number. Adam has a
    constant learning rate, and gradients are not clipped. Runs of equal seed share initialisation and batches.
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
    """The tokens with new ids in falling order of frequency, from 0; all ids from `size` - 1 on become `size` - 1."""
    values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse]


def untrained_norms(
    shape: TransformerShape, tokens: Tokens, seeds: Sequence[int]
) -> Float[np.ndarray, " runs"]:
    """Length of the first layer's gradient on the first batch, for each untrained transformer; inf if it is NaN."""
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
