"""Training of several transformers of one shape together, with what is observed of their gradients and activations."""

from collections.abc import Sequence
from typing import NamedTuple

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
"""Windows in a training batch."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's."""
Norms = Float[np.ndarray, "runs depth"]
Run = tuple[float, int, int]
"""Learning rate, steps of its linear warm-up, and seed."""


class Curves(NamedTuple):
    """What `train` returns; values that are no numbers are infinite."""

    loss: Float[np.ndarray, "runs steps"]
    """before the step"""
    unigram: Float[np.ndarray, "runs steps"]
    """loss of predicting the corpus' token frequencies, on the same tokens"""
    gradient_norm: Float[np.ndarray, "runs logged depth"]
    logged: list[int]
    """steps of `gradient_norm`"""
    scales: dict[str, Float[np.ndarray, "runs 2 parts"]]
    """of `part_scales` before and after training, on the windows of the first step"""
    parameters: Rows
    """after the last step"""


def train(shape: TransformerShape, tokens: Tokens, runs: Sequence[Run], steps: int, every: int) -> Curves:
    """Train `runs` of one shape with Adam, without clipping of gradients, for a number of steps.

    Gradients are observed at each step that `every` divides, and at the last. Runs of equal seed share initialisation
    and batches. Adam is written out, because all runs take their step together, each with a learning rate of its own.
    """
    draws = {seed: generator(Stream.PLACEMENT_BATCHES, seed) for _, _, seed in runs}
    parameters = initial(shape, [seed for _, _, seed in runs])
    gradient, mean, square, root = (torch.zeros_like(parameters) for _ in range(4))
    # Matrices share the memory of rows, over which Adam is a few long loops.
    leaves, slots = shape.matrices(parameters), shape.matrices(gradient)
    surprisal = -np.log(np.bincount(tokens, minlength=shape.vocabulary).clip(1) / len(tokens))
    logged = [step for step in range(steps) if step % every == 0 or step == steps - 1]
    curve, unigram, norms = [], [], []
    progress = Progress(f"placement {shape.placement} depth {shape.depth}", total=steps, unit="steps")
    for step in range(steps):
        drawn = {seed: _windows(rng, tokens, shape.context_length) for seed, rng in draws.items()}
        batch = np.stack([drawn[seed] for _, _, seed in runs])
        unigram.append(surprisal[batch[:, :, 1:]].mean(axis=(1, 2)))
        batch = torch.from_numpy(batch)
        if step == 0:
            first_batch, before = batch, part_scales(shape, leaves, batch)
        curve.append(_differentiated(shape, leaves, slots, batch))
        if step in logged:
            norms.append(_layer_norms(shape, gradient))
        with torch.no_grad():
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            torch.sqrt(square, out=root).div_((1 - BETAS[1] ** (step + 1)) ** 0.5).add_(EPS)
            for row, first, second, (rate, warmup, _) in zip(parameters, mean, root, runs, strict=True):
                rate *= min(1.0, (step + 1) / max(warmup, 1)) / (1 - BETAS[0] ** (step + 1))
                row.addcdiv_(first, second, value=-rate)
        progress(step + 1, f"mean loss {curve[-1].mean():.2f}")
    after = part_scales(shape, leaves, first_batch)
    scales = {name: np.stack([before[name], after[name]], axis=1) for name in before}
    unigram, norms = np.stack(unigram, axis=1), np.stack(norms, axis=1)
    return Curves(_finite(curve), unigram, norms, logged, scales, parameters.detach())


def reduce_vocabulary(tokens: Tokens, size: int) -> Int[np.ndarray, " n"]:
    """Tokens numbered by frequency; the rarer ones beyond `size` - 1 become one token, `size` - 1."""
    values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse]


def untrained_norms(shape: TransformerShape, tokens: Tokens, seeds: Sequence[int]) -> Norms:
    """The norms of the layers' gradients of an untrained transformer for each seed, on its first training batch."""
    parameters = initial(shape, seeds)
    gradient = torch.zeros_like(parameters)
    draws = [generator(Stream.PLACEMENT_BATCHES, seed) for seed in seeds]
    batch = np.stack([_windows(rng, tokens, shape.context_length) for rng in draws])
    _differentiated(shape, shape.matrices(parameters), shape.matrices(gradient), torch.from_numpy(batch))
    return _layer_norms(shape, gradient)


def _windows(rng: np.random.Generator, tokens: Tokens, context: int) -> Int[np.ndarray, "batch window"]:
    """A training batch: BATCH windows of `context` + 1 tokens at random places of the stream `tokens`."""
    starts = rng.integers(len(tokens) - context, size=BATCH)
    return tokens[starts[:, None] + np.arange(context + 1)]


def _differentiated(
    shape: TransformerShape, leaves: Matrices, slots: Matrices, batch: Windows
) -> Float[np.ndarray, " runs"]:
    """The loss of every run; its gradient in each of `leaves` goes to `slots`, which stay as they are for others."""
    loss = losses(shape, [leaf.requires_grad_() for leaf in leaves], batch)
    gradients = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
    for slot, part in zip(slots, gradients, strict=True):
        if part is not None:
            slot.copy_(part)
    return loss.detach().numpy()


def _layer_norms(shape: TransformerShape, gradient: Rows) -> Norms:
    """The norm of every run's gradient in all parameters of each layer; infinite where it is no number."""
    return _finite([gradient[:, part].norm(dim=1).numpy() for part in shape.layers()])


def part_scales(
    shape: TransformerShape, matrices: Matrices, batch: Windows
) -> dict[str, Float[np.ndarray, "runs parts"]]:
    """Root mean squares, over tokens and features, of what each part of a layer receives, and of the stream before it.

    Parts are the attention and the feed-forward part of layer 1, of layer 2 and so on, of transformers with weights
    `matrices` that read `batch`. A value that is not a number becomes infinity.
    """
    found = {"input_rms": [], "stream_rms": []}

    def observe(stream, received):
        for x, sizes in zip((received, stream), found.values(), strict=True):
            sizes.append(x.square().mean(dim=(1, 2)).sqrt().numpy())

    with torch.no_grad():
        losses(shape, matrices, batch, observe)
    return {name: _finite(sizes) for name, sizes in found.items()}


def _finite(columns: Sequence[Float[np.ndarray, " rows"]]) -> Float[np.ndarray, "rows columns"]:
    """The columns as one array, with infinity in place of what is no number: null would mean missing in a table."""
    return np.nan_to_num(np.stack(columns, axis=1), nan=np.inf, posinf=np.inf)
