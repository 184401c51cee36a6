"""LayerNorm before each part of a transformer layer (pre-norm) or after each residual sum (post-norm).

Measured are the training loss with and without warm-up, the gradient of every layer at initialisation and in training,
how large the inputs of attention and feed-forward part are before and after training, and whether the residual stream
tells a token's position. In untrained networks the gradients are measured without the residual connection, too.
Setting and expectations: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture".
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import PROBED_UP_TO, Placement
from layernorm_roles.statements.position import position_accuracy, probe_windows
from layernorm_roles.statements.training import Curves, reduce_vocabulary, train, untrained_norms
from layernorm_roles.statements.transformer import Tokens, TransformerShape, initial
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.token_streams import read_stream

PARTS = ("attention", "feed_forward")
"""The parts of a layer, in their order."""
LEARNT = 0.05
"""Nats per token below the loss of token frequencies, from where on a run counts as trained."""


def write(plan: Mapping[str, Any], manifest: str | Path, out: Mapping[str, str | Path]) -> None:
    """Train all runs with one placement of the norm, and write the tables of `measure`; `out` has the path of each.

    `manifest` is that of the prepared text. Raises ValueError if a file of the text is missing, damaged, of another
    text or too short.
    """
    torch.set_num_threads(1)  # processes share the cores, not the threads of one
    settings, text = Placement.model_validate(plan["settings"]), PreparedText(Path(manifest).parent)
    text.content_hash()  # raises an error if the token stream is of another text
    tokens = read_stream(text.tokens("training"), 2**32, settings.context_length)  # rarer tokens become one
    origin = provenance(plan, "cpu", Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE, torch=True)
    for name, table in measure(tokens, settings, plan).items():
        store.write(table, name, out[name], origin)


def measure(tokens: Tokens, settings: Placement, plan: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """The tables of one placement by name, from training on a stream of token ids.

    The plan has the `placement` (one of PLACEMENTS), the `seeds` of the runs, and the `untrained_seeds` of the networks
    that are not trained.
    """
    placement, tokens = plan["placement"], reduce_vocabulary(tokens, settings.vocabulary)
    runs = list(product(settings.learning_rates, settings.warmup, plan["seeds"]))
    untrained = untrained_gradients(tokens, placement, settings, plan["untrained_seeds"])
    tables = [("untrained_gradients", untrained)]
    for depth, residual in product(settings.depths, (True, False)):
        if not residual and depth > PROBED_UP_TO:
            continue
        shape = _shape(settings, placement, depth, residual)
        named = pd.DataFrame(runs, columns=["learning_rate", "warmup", "seed"])
        named = named.assign(placement=placement, depth=depth)
        curves = train(shape, tokens, runs, settings.steps, settings.gradients_every)
        if residual:
            tables += _observed(named, curves, settings.vocabulary)
        if depth <= PROBED_UP_TO:
            tables.append(("position_probe", _probed(named, shape, tokens, curves)))
    names = dict.fromkeys(name for name, _ in tables)
    return {name: pd.concat([rows for of, rows in tables if of == name], ignore_index=True) for name in names}


def _shape(settings: Placement, placement: str, depth: int, residual: bool) -> TransformerShape:
    sizes = (settings.d_model, settings.heads, settings.context_length, settings.vocabulary)
    return TransformerShape(placement, depth, *sizes, residual)


def _rows(runs: pd.DataFrame, axes: Mapping[str, Sequence[Any]], **values: np.ndarray) -> pd.DataFrame:
    """A row for each run and combination of the values of `axes`, with the columns of `runs` and those of `values`.

    The axes of an array in `values` are the runs, then `axes` in their order.
    """
    index = pd.MultiIndex.from_product([runs.index, *axes.values()], names=["run", *axes])
    frame = pd.DataFrame({name: array.ravel() for name, array in values.items()}, index)
    return frame.reset_index().join(runs, on="run").drop(columns="run")


def _observed(runs: pd.DataFrame, curves: Curves, vocabulary: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows of the tables placement, placement_gradients and placement_scales of networks of one depth."""
    steps, layers = curves.loss.shape[1], range(1, curves.gradient_norm.shape[2] + 1)
    ended = [status(*run, vocabulary) for run in zip(curves.loss, curves.unigram, strict=True)]
    at_steps = {"train_loss": curves.loss, "unigram_loss": curves.unigram}
    yield "placement", _rows(runs.assign(status=ended), {"step": range(steps)}, **at_steps)
    axes = {"step": curves.logged, "layer": layers}
    yield "placement_gradients", _rows(runs, axes, gradient_norm=curves.gradient_norm)
    axes = {"step": (0, steps), "layer": layers, "part": PARTS}
    yield "placement_scales", _rows(runs, axes, **curves.scales)


def _probed(runs: pd.DataFrame, shape: TransformerShape, tokens: Tokens, curves: Curves) -> pd.DataFrame:
    """Rows of the table position_probe of networks of one shape, untrained and trained, all on the same windows."""
    seeds = runs.seed.tolist()
    probes = probe_windows(tokens, shape.context_length, seeds[0])
    states = initial(shape, seeds), curves.parameters
    shares = [position_accuracy(shape, shape.matrices(state), probes) for state in states]
    runs = runs.assign(
        residual=shape.residual, context_length=shape.context_length, final_loss=_end(curves.loss)
    )
    axes = {"step": (0, curves.loss.shape[1]), "layer": range(1, shape.depth + 1)}
    return _rows(runs, axes, position_accuracy=np.stack(shares, axis=1))


def untrained_gradients(
    tokens: Tokens, placement: str, settings: Placement, seeds: Sequence[int]
) -> pd.DataFrame:
    """Table `untrained_gradients`: gradients of untrained networks with and without residual connections.

    `tokens` are ids below `settings.vocabulary`. Networks of equal depth and seed share parameters and windows.
    Networks without a norm belong to no placement; they are measured along with pre-norm.
    """
    frames, names = [], ("pre", "none") if placement == "pre" else (placement,)
    for name, residual, depth in product(names, (True, False), settings.untrained_depths):
        runs = pd.DataFrame({"seed": seeds}).assign(placement=name, residual=residual, depth=depth)
        norms = untrained_norms(_shape(settings, name, depth, residual), tokens, seeds)
        frames.append(_rows(runs, {"layer": range(1, depth + 1)}, gradient_norm=norms))
    return pd.concat(frames, ignore_index=True)


def status(loss: Float[np.ndarray, " steps"], unigram: Float[np.ndarray, " steps"], vocabulary: int) -> str:
    """What became of a run, from its loss at every step and that of token frequencies on the same tokens.

    diverged: not finite at some step, or at the end above ln(vocabulary), worse than knowing nothing. stuck: at the
    end less than LEARNT below the token frequencies. trained: else. The end is the mean over the last tenth.
    """
    end = _end(loss)
    if not np.isfinite(loss).all() or end > math.log(vocabulary):
        return "diverged"
    return "trained" if end < _end(unigram) - LEARNT else "stuck"


def _end(curve: Float[np.ndarray, "*runs steps"]) -> Float[np.ndarray, "*runs"] | np.floating:
    """The mean over the last tenth of the steps."""
    return curve[..., -max(1, curve.shape[-1] // 10) :].mean(axis=-1)
