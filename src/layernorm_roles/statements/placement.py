"""LayerNorm before each part of a transformer layer (pre-norm) or after each residual sum (post-norm).

    pre     x = x + part(norm(x))        and one norm before the readout
    post    x = norm(x + part(x))

Gradients of every layer at initialisation and in training, and the training loss, with and without warm-up.
Setting and expectations: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".

All runs of one depth train together: the parameters of a run are one row of a matrix, and every product is a batched
one over runs. Runs do not mix (a test holds them equal to runs alone).
"""

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from layernorm_roles.job import Progress
from layernorm_roles.norms import project, scale
from layernorm_roles.statements import PLACEMENT_DATA, generator

PLACEMENTS = ("pre", "post")
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's."""


class Shape(NamedTuple):
    """Sizes of the transformer; `placement` is one of PLACEMENTS."""

    placement: str
    depth: int
    width: int
    heads: int
    context: int
    vocabulary: int

    def parameters(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """(name, (inputs, outputs)) of every matrix, layer by layer; gains and biases are those of width 1."""
        d = self.width
        yield "token", (self.vocabulary, d)
        yield "position", (self.context, d)
        for _ in range(self.depth):
            yield from {"gain_1": (1, d), "bias_1": (1, d), "qkv": (d, 3 * d), "out": (d, d)}.items()
            yield from {"gain_2": (1, d), "bias_2": (1, d), "up": (d, 4 * d), "down": (4 * d, d)}.items()
        # Post-norm ends in a norm already; pre-norm needs one.
        yield from {"gain": (1, d), "bias": (1, d)}.items() if self.placement == "pre" else ()
        yield "readout", (d, self.vocabulary)

    def sizes(self) -> list[int]:
        return [rows * columns for _, (rows, columns) in self.parameters()]

    def matrices(self, rows: Float[Tensor, "runs p"]) -> list[Float[Tensor, "runs inputs outputs"]]:
        """Every matrix of every run, as views of the rows."""
        parts = rows.split(self.sizes(), dim=1)
        return [part.view(-1, *size) for part, (_, size) in zip(parts, self.parameters(), strict=True)]

    def layers(self) -> list[slice]:
        """Where each layer's parameters stand in a run's row."""
        ends = np.cumsum([0, *self.sizes()])
        return [slice(ends[2 + 8 * layer], ends[2 + 8 * (layer + 1)]) for layer in range(self.depth)]


def initial(shape: Shape, seeds: list[int]) -> Float[Tensor, "runs p"]:
    """Xavier-normal matrices, embeddings whose sum has variance 1, unit gains, zero biases; the same for equal seeds."""
    rows = []
    for seed in seeds:
        generator_ = torch.Generator().manual_seed(seed)
        parts = []
        for name, (inputs, outputs) in shape.parameters():
            match name.partition("_")[0]:
                case "gain":
                    part = torch.ones(inputs * outputs)
                case "bias":
                    part = torch.zeros(inputs * outputs)
                case "token" | "position":
                    part = torch.randn(inputs * outputs, generator=generator_) * 0.5**0.5
                case _:
                    part = (
                        torch.randn(inputs * outputs, generator=generator_) * (2 / (inputs + outputs)) ** 0.5
                    )
            parts.append(part)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def losses(
    shape: Shape,
    matrices: list[Float[Tensor, "runs inputs outputs"]],
    windows: Int[Tensor, "runs batch tokens"],
) -> Float[Tensor, " runs"]:
    """Mean next-token cross-entropy of every run on its own windows (context + 1 tokens each), in nats per token."""
    runs, batch, context, d = *windows.shape[:2], shape.context, shape.width
    weights = iter(matrices)
    tokens, targets = windows[:, :, :-1].flatten(1), windows[:, :, 1:].flatten(1)

    def norm(x, gain, bias):
        return torch.addcmul(bias, scale(project(x), 1e-5), gain)

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
        for part in (attention, feed_forward):
            gain, bias, first, second = (next(weights) for _ in range(4))
            if shape.placement == "pre":
                x = x + part(norm(x, gain, bias), first, second)
            else:
                x = norm(x + part(x, first, second), gain, bias)
    if shape.placement == "pre":
        x = norm(x, next(weights), next(weights))
    logits = x @ next(weights)
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=1)


def reduce_vocabulary(
    windows: Int[np.ndarray, "windows tokens"], size: int
) -> Int[np.ndarray, "windows tokens"]:
    """Tokens numbered by frequency; the rarer ones beyond `size` - 1 become one token, `size` - 1."""
    values, inverse, counts = np.unique(windows, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse].reshape(windows.shape)


def unigram_entropy(windows: Int[np.ndarray, "windows tokens"]) -> float:
    """Loss of predicting every token by its frequency alone, nats per token."""
    share = np.unique(windows, return_counts=True)[1] / windows.size
    return float(-(share * np.log(share)).sum())


def status(curve: Float[np.ndarray, " steps"], vocabulary: int, unigram: float) -> str:
    """What became of a run, from its loss at every step: diverged, stuck or trained.

    diverged: not finite at some step, or at the end above ln(vocabulary), worse than knowing nothing; stuck: at the
    end no better than token frequencies; the end is the mean over the last tenth of the steps.
    """
    end = curve[-max(1, len(curve) // 10) :].mean()
    if not np.isfinite(curve).all() or end > math.log(vocabulary):
        return "diverged"
    return "stuck" if end >= unigram else "trained"


def measure(
    windows: Int[np.ndarray, "windows tokens"], placement: str, settings: Mapping[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables `placement` and `placement_gradients` of one placement, from windows of token ids.

    Raises ValueError if the windows are shorter than context + 1.
    """
    context, vocabulary = settings["context"], settings["vocabulary"]
    if windows.shape[1] <= context:
        raise ValueError(
            f"statements.placement.context = {context}: expected below {windows.shape[1]}, the windows' length"
        )
    windows = reduce_vocabulary(windows, vocabulary)
    unigram = unigram_entropy(windows)
    curves, gradients = [], []
    for depth in settings["depths"]:
        shape = Shape(placement, depth, settings["width"], settings["heads"], context, vocabulary)
        runs = list(product(settings["learning_rates"], settings["warmup"], settings["seeds"]))
        loss, norm, logged = train(shape, windows, runs, settings)
        for i, (rate, warmup, seed) in enumerate(runs):
            about = {
                "placement": placement,
                "depth": depth,
                "learning_rate": rate,
                "warmup": warmup,
                "seed": seed,
            }
            curves.append(
                pd.DataFrame({"step": range(len(loss)), "train_loss": loss[:, i]}).assign(
                    **about, unigram_loss=unigram, status=status(loss[:, i], vocabulary, unigram)
                )
            )
            gradients.append(
                pd.DataFrame(
                    {
                        "step": np.repeat(logged, depth),
                        "layer": np.tile(np.arange(1, depth + 1), len(logged)),
                        "gradient_norm": norm[:, i].ravel(),
                    }
                ).assign(**about)
            )
    return pd.concat(curves, ignore_index=True), pd.concat(gradients, ignore_index=True)


def train(
    shape: Shape,
    windows: Int[np.ndarray, "windows tokens"],
    runs: list[tuple[float, int, int]],
    settings: Mapping[str, Any],
) -> tuple[Float[np.ndarray, "steps runs"], Float[np.ndarray, "logged runs depth"], list[int]]:
    """Train all `runs`, (learning rate, warm-up steps, seed) each, with Adam; no clipping, which would hide divergence.

    Returns the loss before each step, the gradient norm of each layer at the logged steps, and these steps. Runs of
    equal seed share initialisation and batches.
    """
    steps, batch, every = settings["steps"], settings["batch"], settings["gradients_every"]
    draws = {seed: generator(seed, PLACEMENT_DATA) for _, _, seed in runs}
    parameters = initial(shape, [seed for _, _, seed in runs])
    gradient, mean, square, root = (torch.zeros_like(parameters) for _ in range(4))
    # Leaves that share the rows' memory, and one buffer for all gradients: Adam is then a few long loops.
    leaves = [matrix.requires_grad_() for matrix in shape.matrices(parameters)]
    slots = shape.matrices(gradient)
    curve, norms, logged = [], [], []
    progress = Progress(f"placement {shape.placement} depth {shape.depth}", total=steps, unit="steps")
    for step in range(steps):
        batches = {seed: _batch(rng, windows, batch, shape.context) for seed, rng in draws.items()}
        loss = losses(shape, leaves, torch.from_numpy(np.stack([batches[seed] for _, _, seed in runs])))
        for slot, part in zip(slots, torch.autograd.grad(loss.sum(), leaves), strict=True):
            slot.copy_(part)
        curve.append(loss.detach().numpy())
        if step % every == 0 or step == steps - 1:
            logged.append(step)
            norms.append(
                torch.stack([gradient[:, part].norm(dim=1) for part in shape.layers()], dim=1).numpy()
            )
        with torch.no_grad():
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            torch.sqrt(square, out=root).div_((1 - BETAS[1] ** (step + 1)) ** 0.5).add_(EPS)
            for row, first, second, (rate, warmup, _) in zip(parameters, mean, root, runs, strict=True):
                rate *= min(1.0, (step + 1) / max(warmup, 1)) / (1 - BETAS[0] ** (step + 1))
                row.addcdiv_(first, second, value=-rate)
        progress(step + 1, f"median loss {curve[-1].mean():.2f}")
    return np.stack(curve), np.stack(norms), logged


def _batch(
    rng: np.random.Generator, windows: Int[np.ndarray, "windows tokens"], batch: int, context: int
) -> Int[np.ndarray, "batch tokens"]:
    """Pieces of context + 1 tokens at random places of random windows."""
    rows = rng.integers(len(windows), size=batch)
    starts = rng.integers(windows.shape[1] - context, size=batch)
    return windows[rows[:, None], starts[:, None] + np.arange(context + 1)]
