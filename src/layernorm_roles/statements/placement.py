"""LayerNorm before each part of a transformer layer (pre-norm) or after each residual sum (post-norm).

Measured are the training loss with and without warm-up, the gradient of every layer at initialisation and in training,
how large the inputs of attention and feed-forward part are before and after training, and whether the residual stream
tells a token's position. In untrained networks the gradients are measured without the residual connection, too.
Setting and expectations: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".

All runs of one depth train together, see `transformer`.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from layernorm_roles import store
from layernorm_roles.job import Progress
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Placement
from layernorm_roles.statements.position import position_accuracy, probe_windows
from layernorm_roles.statements.transformer import UNTRAINED, TransformerShape, initial, losses
from layernorm_roles.text.token_streams import read_stream

PARTS = ("attention", "feed_forward")
"""The parts of a layer, in their order."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Adam's."""
LEARNT = 0.05
"""Nats per token below the loss of token frequencies, from where on a run counts as trained."""


def part_scales(
    shape: TransformerShape,
    matrices: list[Float[Tensor, "runs _ _"]],
    windows: Int[Tensor, "runs batch tokens"],
) -> dict[str, Float[np.ndarray, "runs parts"]]:
    """Root mean squares, over tokens and features, of activations of transformers with weights `matrices` on `windows`.

    The key input_rms stands for the input of a part, which is normed in a pre-norm transformer, and stream_rms for the
    residual stream before the part. Parts are the attention and the feed-forward part of layer 1, of layer 2 and so on.
    A value that is not a number becomes infinity.
    """
    found = {"input_rms": [], "stream_rms": []}

    def observe(stream, received):
        for x, sizes in zip((received, stream), found.values(), strict=True):
            sizes.append(x.square().mean(dim=(1, 2)).sqrt())

    with torch.no_grad():
        losses(shape, matrices, windows, observe)
    return {name: _finite_or_infinite(torch.stack(sizes, dim=1).numpy()) for name, sizes in found.items()}


def reduce_vocabulary(tokens: Integer[np.ndarray, " n"], size: int) -> Int[np.ndarray, " n"]:
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
    """What `train` returns; values that are no numbers are infinite."""

    loss: Float[np.ndarray, "steps runs"]
    """before the step"""
    unigram: Float[np.ndarray, "steps runs"]
    """loss of predicting the corpus' token frequencies, on the same tokens"""
    gradient_norm: Float[np.ndarray, "logged runs depth"]
    logged: list[int]
    """steps of `gradient_norm`"""
    scales: dict[int, dict[str, Float[np.ndarray, "runs parts"]]]
    """of `part_scales`, by the optimiser steps taken, 0 and all of them; on the windows of the first step"""
    parameters: Float[Tensor, "runs p"]
    """after the last step"""


def write(
    settings: Placement,
    seeds: Sequence[int],
    untrained_seeds: Sequence[int],
    placement: str,
    training: str | Path,
    out: Mapping[str, str | Path],
) -> None:
    """Train every run of one of PLACEMENTS on the token stream in the file `training`; write the tables of `measure`.

    `seeds` are those of the runs, `untrained_seeds` those of the table untrained_gradients. `out` has the path of each
    table by its name. Raises ValueError if the stream is damaged or too short.
    """
    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    tokens = read_stream(training, 2**32, settings.context_length)  # any vocabulary: rarer tokens become one
    identity = {"placement": placement, "seeds": list(seeds), "untrained_seeds": list(untrained_seeds)}
    identity["settings"] = settings.model_dump(mode="json")
    origin = provenance(identity, "cpu", Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE, torch=True)
    for name, table in measure(tokens, placement, settings, seeds, untrained_seeds).items():
        store.write(table, name, out[name], origin)


def measure(
    tokens: Integer[np.ndarray, " n"],
    placement: str,
    settings: Placement,
    seeds: Sequence[int],
    untrained_seeds: Sequence[int],
) -> dict[str, pd.DataFrame]:
    """The tables of one placement by name, trained on a stream of token ids; the seeds are those of `write`."""
    context, vocabulary = settings.context_length, settings.vocabulary
    tokens = reduce_vocabulary(tokens, vocabulary)
    runs = list(product(settings.learning_rates, settings.warmup, seeds))
    curves, gradients, scales, probes = [], [], [], []
    for depth in settings.depths:
        shape = TransformerShape(placement, depth, settings.d_model, settings.heads, context, vocabulary)
        named = [
            {"placement": placement, "depth": depth, "learning_rate": rate, "warmup": warmup, "seed": seed}
            for rate, warmup, seed in runs
        ]
        curve = train(shape, tokens, runs, settings)
        if depth <= settings.probe_up_to:
            for network in (shape, shape._replace(residual=False)):
                trained = curve if network.residual else train(network, tokens, runs, settings)
                found = probed(network, tokens, runs, trained)
                probes += [frame.assign(**run) for run, frame in zip(named, found, strict=True)]
        for i, run in enumerate(named):
            loss, unigram = curve.loss[:, i], curve.unigram[:, i]
            rows = pd.DataFrame({"step": range(len(loss)), "train_loss": loss, "unigram_loss": unigram})
            curves.append(rows.assign(**run, status=status(loss, unigram, vocabulary)))
            logged = {
                "step": np.repeat(curve.logged, depth),
                "layer": np.tile(np.arange(1, depth + 1), len(curve.logged)),
                "gradient_norm": curve.gradient_norm[:, i].ravel(),
            }
            gradients.append(pd.DataFrame(logged).assign(**run))
            places = {"layer": np.repeat(np.arange(1, depth + 1), len(PARTS)), "part": PARTS * depth}
            for step, found in curve.scales.items():
                sizes = {name: values[i] for name, values in found.items()}
                scales.append(pd.DataFrame({**places, **sizes}).assign(**run, step=step))
    # The networks without a norm belong to no placement; they are measured along with pre-norm.
    untrained = [name for name in UNTRAINED if name == placement or (name, placement) == ("none", "pre")]
    frames = {
        "placement": curves,
        "placement_gradients": gradients,
        "placement_scales": scales,
        "untrained_gradients": [untrained_gradients(tokens, untrained, settings, untrained_seeds)],
        "position_probe": probes,
    }
    return {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}


def probed(
    shape: TransformerShape,
    tokens: Integer[np.ndarray, " n"],
    runs: Sequence[tuple[float, int, int]],
    trained: Curves,
) -> list[pd.DataFrame]:
    """Rows of table position_probe for each of `runs`, without the columns that name the run: untrained, then trained.

    A run is (learning rate, warm-up, seed); `trained` is what `train` returned for the runs on the token ids `tokens`.
    The linear probes of all runs read the same windows.
    """
    seeds = [seed for _, _, seed in runs]
    windows = probe_windows(tokens, shape.context_length, seeds[0])
    shares = [
        position_accuracy(shape, shape.matrices(parameters), windows)
        for parameters in (initial(shape, seeds), trained.parameters)
    ]
    steps = np.repeat([0, len(trained.loss)], shape.depth)
    last = trained.loss[-max(1, len(trained.loss) // 10) :].mean(axis=0)
    places = pd.DataFrame({"step": steps, "layer": np.tile(np.arange(1, shape.depth + 1), 2)})
    places = places.assign(residual=shape.residual, context_length=shape.context_length)
    accuracy = np.concatenate(shares, axis=1)
    return [places.assign(position_accuracy=accuracy[i], final_loss=last[i]) for i in range(len(runs))]


def untrained_gradients(
    tokens: Integer[np.ndarray, " n"], placements: Sequence[str], settings: Placement, seeds: Sequence[int]
) -> pd.DataFrame:
    """Table `untrained_gradients`: gradients of untrained networks with and without residual connections.

    `tokens` are ids below `settings.vocabulary`. Networks of equal depth and seed share parameters and windows.
    """
    frames = []
    for placement, residual, depth in product(placements, (True, False), settings.untrained_depths):
        sizes = (depth, settings.d_model, settings.heads, settings.context_length, settings.vocabulary)
        shape = TransformerShape(placement, *sizes, residual=residual)
        parameters = initial(shape, seeds)
        leaves = [matrix.requires_grad_() for matrix in shape.matrices(parameters)]
        draws = [generator(Stream.PLACEMENT_BATCHES, seed) for seed in seeds]
        windows = [_batch(rng, tokens, settings.batch_size, shape.context_length) for rng in draws]
        loss = losses(shape, leaves, torch.from_numpy(np.stack(windows)))
        gradient = torch.zeros_like(parameters)
        _differentiate(loss, leaves, shape.matrices(gradient))
        norms = _finite_or_infinite(_layer_norms(shape, gradient).numpy())
        for seed, norm in zip(seeds, norms, strict=True):
            rows = pd.DataFrame({"layer": np.arange(1, depth + 1), "gradient_norm": norm})
            frames.append(rows.assign(placement=placement, residual=residual, depth=depth, seed=seed))
    return pd.concat(frames, ignore_index=True)


def _differentiate(loss: Float[Tensor, " runs"], leaves: list[Tensor], slots: list[Tensor]) -> None:
    """Copy the gradient of every run's loss in each of `leaves` to its place in `slots`; a leaf it lacks gets 0."""
    gradients = torch.autograd.grad(loss.sum(), leaves, allow_unused=True)
    for slot, part in zip(slots, gradients, strict=True):
        slot.zero_() if part is None else slot.copy_(part)


def _layer_norms(shape: TransformerShape, gradient: Float[Tensor, "runs p"]) -> Float[Tensor, "runs depth"]:
    """The norm of every run's gradient in all parameters of each layer."""
    return torch.stack([gradient[:, part].norm(dim=1) for part in shape.layers()], dim=1)


def train(
    shape: TransformerShape,
    tokens: Integer[np.ndarray, " n"],
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
    curve, unigram, norms, logged, scales = [], [], [], [], {}
    progress = Progress(f"placement {shape.placement} depth {shape.depth}", total=steps, unit="steps")
    for step in range(steps):
        batches = {seed: _batch(rng, tokens, batch, shape.context_length) for seed, rng in draws.items()}
        windows = np.stack([batches[seed] for _, _, seed in runs])
        unigram.append(surprisal[windows[:, :, 1:]].mean(axis=(1, 2)))
        windows = torch.from_numpy(windows)
        if step == 0:
            first_windows = windows
            scales[0] = part_scales(shape, leaves, first_windows)
        loss = losses(shape, leaves, windows)
        _differentiate(loss, leaves, slots)
        curve.append(loss.detach().numpy())
        if step % every == 0 or step == steps - 1:
            logged.append(step)
            norms.append(_layer_norms(shape, gradient).numpy())
        with torch.no_grad():
            mean.lerp_(gradient, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            torch.sqrt(square, out=root).div_((1 - BETAS[1] ** (step + 1)) ** 0.5).add_(EPS)
            for row, first, second, (rate, warmup, _) in zip(parameters, mean, root, runs, strict=True):
                rate *= min(1.0, (step + 1) / max(warmup, 1)) / (1 - BETAS[0] ** (step + 1))
                row.addcdiv_(first, second, value=-rate)
        progress(step + 1, f"mean loss {curve[-1].mean():.2f}")
    scales[steps] = part_scales(shape, leaves, first_windows)
    # Null means missing in a table, so what is no number after a divergence is stored as infinite.
    curve, norms = (_finite_or_infinite(np.stack(rows)) for rows in (curve, norms))
    return Curves(curve, np.stack(unigram), norms, logged, scales, parameters.detach())


def _finite_or_infinite(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """The values, with infinity in place of what is no number."""
    return np.nan_to_num(values, nan=np.inf, posinf=np.inf)


def _batch(
    rng: np.random.Generator, tokens: Integer[np.ndarray, " n"], batch: int, context: int
) -> Int[np.ndarray, "batch window"]:
    """Windows of context + 1 tokens at random places of the stream."""
    starts = rng.integers(len(tokens) - context, size=batch)
    return tokens[starts[:, None] + np.arange(context + 1)]
