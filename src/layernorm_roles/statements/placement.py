"""LayerNorm before each part of a transformer layer (pre-norm) or after each residual sum (post-norm).

    pre     x = x + part(norm(x))        and one norm before the readout
    post    x = norm(x + part(x))

Gradients of every layer at initialisation and in training, and the training loss, with and without warm-up.
Setting and expectations: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".

All runs of one depth train together: the parameters of a run are one row of a matrix, and every product is a batched
one over runs. Runs do not mix (a test holds them equal to runs alone).
"""

import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from layernorm_roles import store
from layernorm_roles.job import Progress
from layernorm_roles.norms import project, scale
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Placement
from layernorm_roles.text.token_streams import read_stream

PLACEMENTS = ("pre", "post")
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's."""
LEARNT = 0.05
"""Nats per token below the loss of token frequencies, from where on a run counts as trained."""


class TransformerShape(NamedTuple):
    """Sizes of the transformer; `placement` is one of PLACEMENTS."""

    placement: str
    depth: int
    d_model: int
    heads: int
    context_length: int
    vocabulary: int

    def parameters(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """(name, (inputs, outputs)) of every matrix, layer by layer; gains and biases are those of width 1."""
        d = self.d_model
        yield "token", (self.vocabulary, d)
        yield "position", (self.context_length, d)
        for _ in range(self.depth):
            yield from {"gain_1": (1, d), "bias_1": (1, d), "qkv": (d, 3 * d), "out": (d, d)}.items()
            yield from {"gain_2": (1, d), "bias_2": (1, d), "up": (d, 4 * d), "down": (4 * d, d)}.items()
        # Post-norm ends in a norm already; pre-norm needs one.
        yield from {"gain": (1, d), "bias": (1, d)}.items() if self.placement == "pre" else ()
        yield "readout", (d, self.vocabulary)

    def sizes(self) -> list[int]:
        """Numbers of entries of the matrices, in the order of `parameters`."""
        return [rows * columns for _, (rows, columns) in self.parameters()]

    def matrices(self, rows: Float[Tensor, "runs p"]) -> list[Float[Tensor, "runs _ _"]]:
        """Every matrix of every run, as views of the rows."""
        parts = rows.split(self.sizes(), dim=1)
        return [part.view(-1, *size) for part, (_, size) in zip(parts, self.parameters(), strict=True)]

    def layers(self) -> list[slice]:
        """Where each layer's parameters stand in a run's row."""
        ends = np.cumsum([0, *self.sizes()])
        return [slice(ends[2 + 8 * layer], ends[2 + 8 * (layer + 1)]) for layer in range(self.depth)]


def initial(shape: TransformerShape, seeds: list[int]) -> Float[Tensor, "runs p"]:
    """Xavier-normal matrices, embeddings whose sum has variance 1, gains of 1, biases of 0; a row for each seed."""
    rows = []
    for seed in seeds:
        torch_generator = torch.Generator().manual_seed(seed)
        parts = []
        for name, (inputs, outputs) in shape.parameters():
            match name.partition("_")[0]:
                case "gain":
                    part = torch.ones(inputs * outputs)
                case "bias":
                    part = torch.zeros(inputs * outputs)
                case "token" | "position":
                    part = torch.randn(inputs * outputs, generator=torch_generator) * 0.5**0.5
                case _:
                    part = (
                        torch.randn(inputs * outputs, generator=torch_generator)
                        * (2 / (inputs + outputs)) ** 0.5
                    )
            parts.append(part)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def losses(
    shape: TransformerShape,
    matrices: list[Float[Tensor, "runs _ _"]],
    windows: Int[Tensor, "runs batch tokens"],
) -> Float[Tensor, " runs"]:
    """Mean next-token cross-entropy of every run on its own windows (context + 1 tokens each), in nats per token."""
    runs, batch, context, d = *windows.shape[:2], shape.context_length, shape.d_model
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


def reduce_vocabulary(tokens: Int[np.ndarray, " n"], size: int) -> Int[np.ndarray, " n"]:
    """Tokens numbered by frequency; the rarer ones beyond `size` - 1 become one token, `size` - 1."""
    values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse]


def status(loss: Float[np.ndarray, " steps"], unigram: Float[np.ndarray, " steps"], vocabulary: int) -> str:
    """What became of a run, from its loss at every step and that of token frequencies on the same tokens.

    diverged: not finite at some step, or at the end above ln(vocabulary), worse than knowing nothing. stuck: at the
    end less than LEARNT below the token frequencies. trained: else. The end is the mean over the last tenth.
    """
    last = -max(1, len(loss) // 10)
    end = loss[last:].mean()
    if not np.isfinite(loss).all() or end > math.log(vocabulary):
        return "diverged"
    return "trained" if end < unigram[last:].mean() - LEARNT else "stuck"


class Curves(NamedTuple):
    """What `train` returns, one column a run; values that are not numbers are infinite."""

    loss: Float[np.ndarray, "steps runs"]
    """before the step"""
    unigram: Float[np.ndarray, "steps runs"]
    """loss of predicting the corpus' token frequencies, on the same tokens"""
    gradient_norm: Float[np.ndarray, "logged runs depth"]
    logged: list[int]
    """steps of `gradient_norm`"""


def write(
    settings: Placement, placement: str, training: str | Path, out: str | Path, out_gradients: str | Path
) -> None:
    """Train every run of one placement on the token stream in the file `training`; write the two tables.

    `out` gets the table placement, `out_gradients` the table placement_gradients. Raises ValueError if the stream is
    damaged or too short.
    """
    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    tokens = read_stream(training, 2**32, settings.context_length)  # any vocabulary: rarer tokens become one
    losses, gradients = measure(tokens, placement, settings)
    origin = provenance(settings.model_dump(mode="json"), "cpu", Stream.PLACEMENT_BATCHES, torch=True)
    store.write(losses, "placement", out, origin)
    store.write(gradients, "placement_gradients", out_gradients, origin)


def measure(
    tokens: Int[np.ndarray, " n"], placement: str, settings: Placement
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables `placement` and `placement_gradients` of one placement, trained on a stream of token ids."""
    context, vocabulary = settings.context_length, settings.vocabulary
    tokens = reduce_vocabulary(tokens, vocabulary)
    curves, gradients = [], []
    for depth in settings.depths:
        shape = TransformerShape(placement, depth, settings.d_model, settings.heads, context, vocabulary)
        runs = list(product(settings.learning_rates, settings.warmup, settings.seeds))
        curve = train(shape, tokens, runs, settings)
        for i, (rate, warmup, seed) in enumerate(runs):
            run = {
                "placement": placement,
                "depth": depth,
                "learning_rate": rate,
                "warmup": warmup,
                "seed": seed,
            }
            loss, unigram = curve.loss[:, i], curve.unigram[:, i]
            rows = pd.DataFrame({"step": range(len(loss)), "train_loss": loss, "unigram_loss": unigram})
            curves.append(rows.assign(**run, status=status(loss, unigram, vocabulary)))
            rows = pd.DataFrame(
                {
                    "step": np.repeat(curve.logged, depth),
                    "layer": np.tile(np.arange(1, depth + 1), len(curve.logged)),
                    "gradient_norm": curve.gradient_norm[:, i].ravel(),
                }
            )
            gradients.append(rows.assign(**run))
    return pd.concat(curves, ignore_index=True), pd.concat(gradients, ignore_index=True)


def train(
    shape: TransformerShape,
    tokens: Int[np.ndarray, " n"],
    runs: list[tuple[float, int, int]],
    settings: Placement,
) -> Curves:
    """Train all `runs`, (learning rate, warm-up steps, seed) each, with Adam. No clipping: it would hide divergence.

    Runs of equal seed share initialisation and batches. Adam is written out, because all runs of a depth take their
    step together, each with a learning rate of its own; a test holds it equal to torch.optim.Adam.
    """
    steps, batch, every = settings.steps, settings.batch_size, settings.gradients_every
    draws = {seed: generator(Stream.PLACEMENT_BATCHES, seed) for _, _, seed in runs}
    parameters = initial(shape, [seed for _, _, seed in runs])
    gradient, mean, square, root = (torch.zeros_like(parameters) for _ in range(4))
    # Leaves that share the rows' memory, and one buffer for all gradients: Adam is then a few long loops.
    leaves = [matrix.requires_grad_() for matrix in shape.matrices(parameters)]
    slots = shape.matrices(gradient)
    surprisal = -np.log(np.bincount(tokens, minlength=shape.vocabulary).clip(1) / len(tokens))
    curve, unigram, norms, logged = [], [], [], []
    progress = Progress(f"placement {shape.placement} depth {shape.depth}", total=steps, unit="steps")
    for step in range(steps):
        batches = {seed: _batch(rng, tokens, batch, shape.context_length) for seed, rng in draws.items()}
        windows = np.stack([batches[seed] for _, _, seed in runs])
        unigram.append(surprisal[windows[:, :, 1:]].mean(axis=(1, 2)))
        loss = losses(shape, leaves, torch.from_numpy(windows))
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
        progress(step + 1, f"mean loss {curve[-1].mean():.2f}")
    # Null means missing in a table, so what is no number after a divergence is stored as infinite.
    curve, norms = (np.nan_to_num(np.stack(rows), nan=np.inf, posinf=np.inf) for rows in (curve, norms))
    return Curves(curve, np.stack(unigram), norms, logged)


def _batch(
    rng: np.random.Generator, tokens: Int[np.ndarray, " n"], batch: int, context: int
) -> Int[np.ndarray, "batch window"]:
    """Windows of context + 1 tokens at random places of the stream."""
    starts = rng.integers(len(tokens) - context, size=batch)
    return tokens[starts[:, None] + np.arange(context + 1)]
