"""Transformers with LayerNorm before attention and feed-forward (pre-norm) or after each residual sum (post-norm).

Measured are the training loss, and whether the residual stream encodes a token's position, with and without residual
connections; and the gradient of the first layer of untrained networks, by the number of layers.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import PROBED_UP_TO, Placement
from layernorm_roles.statements.position import position_accuracy, probe_windows
from layernorm_roles.statements.transformer import (
    Rows,
    Tokens,
    TransformerShape,
    initial,
    reduce_vocabulary,
    train,
    untrained_norms,
)
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.token_streams import read_stream


def write(plan: Mapping[str, Any], manifest: str | Path, out: Mapping[str, str | Path]) -> None:
    """Train transformers with one placement of LayerNorm, measure them, and write three tables to Parquet files.

    `plan` is the job's plan, with settings, seeds, untrained_seeds and placement: "pre", before attention and
    feed-forward, or "post", after each residual sum. `out` has the paths of the tables placement, position_probe and
    untrained_gradients. `manifest` is the path of a text's manifest.json. Raises ValueError if the text's files are
    missing, damaged, too short or not those that the manifest names.
    """
    torch.set_num_threads(1)  # processes share the cores, not the threads of one
    settings, text = Placement.model_validate(plan["settings"]), PreparedText(Path(manifest).parent)
    text.content_hash()  # raises an error if the token stream is of another text
    tokens = read_stream(text.tokens("training"), 2**32, settings.context_length)  # rarer tokens become one
    origin = provenance(plan, "cpu", Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE, torch=True)
    for name, table in measure(tokens, settings, plan).items():
        store.write(table, name, out[name], origin)


def measure(tokens: Tokens, settings: Placement, plan: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Train transformers with one placement of LayerNorm, measure them, and return three tables by name.

    The tables are placement (training losses), position_probe (how well a probe reads positions from the residual
    stream) and untrained_gradients. `tokens` are the token ids of the training text. `plan` has the `placement` ("pre"
    or "post"), the `seeds` of the trained networks, and the `untrained_seeds` of the untrained ones.
    """
    placement, tokens = plan["placement"], reduce_vocabulary(tokens, settings.vocabulary)
    runs = list(product(settings.learning_rates, plan["seeds"]))
    curves, probes = [], []
    for depth, residual in product(settings.depths, (True, False)):
        if not residual and depth > PROBED_UP_TO:
            continue
        shape = _shape(settings, placement, depth, residual)
        named = pd.DataFrame(runs, columns=["learning_rate", "seed"]).assign(placement=placement, depth=depth)
        losses, parameters = train(shape, tokens, runs, settings.steps)
        if residual:
            curves.append(_rows(named, {"step": range(settings.steps)}, train_loss=losses))
        if depth <= PROBED_UP_TO:
            probes.append(_probed(named, shape, tokens, parameters, settings.steps))
    untrained = untrained_gradients(tokens, placement, settings, plan["untrained_seeds"])
    tables = {"placement": curves, "position_probe": probes, "untrained_gradients": [untrained]}
    return {name: pd.concat(parts, ignore_index=True) for name, parts in tables.items()}


def _shape(settings: Placement, placement: str, depth: int, residual: bool) -> TransformerShape:
    sizes = (settings.d_model, settings.heads, settings.context_length, settings.vocabulary)
    return TransformerShape(placement, depth, *sizes, residual)


def _rows(runs: pd.DataFrame, axes: Mapping[str, Sequence[int]], **values: np.ndarray) -> pd.DataFrame:
    """Cross join of `runs` with the values of `axes`; the columns `values` have runs, then `axes`, as array axes."""
    index = pd.MultiIndex.from_product([runs.index, *axes.values()], names=["run", *axes])
    frame = pd.DataFrame({name: array.ravel() for name, array in values.items()}, index)
    return frame.reset_index().join(runs, on="run").drop(columns="run")


def _probed(
    runs: pd.DataFrame, shape: TransformerShape, tokens: Tokens, trained: Rows, steps: int
) -> pd.DataFrame:
    """Rows of table `position_probe` for transformers of one shape, untrained and trained, probed on equal windows."""
    seeds = runs.seed.tolist()
    probes = probe_windows(tokens, shape.context_length, seeds[0])
    states = initial(shape, seeds), trained
    shares = [position_accuracy(shape, shape.matrices(state), probes) for state in states]
    axes = {"step": (0, steps), "layer": range(1, shape.depth + 1)}
    runs = runs.assign(residual=shape.residual, context_length=shape.context_length)
    return _rows(runs, axes, position_accuracy=np.stack(shares, axis=1))


def untrained_gradients(
    tokens: Tokens, placement: str, settings: Placement, seeds: Sequence[int]
) -> pd.DataFrame:
    """The table `untrained_gradients`: how large the loss's gradient is in the first layer of untrained transformers.

    It has a row for each depth and seed, with and without residual connections. Networks of equal depth and seed have
    equal parameters and read equal windows of `tokens`. For the placement "pre", networks without any norm are added.
    """
    frames, names = [], ("pre", "none") if placement == "pre" else (placement,)
    for name, residual, depth in product(names, (True, False), settings.untrained_depths):
        norms = untrained_norms(_shape(settings, name, depth, residual), tokens, seeds)
        frame = pd.DataFrame({"seed": seeds, "gradient_norm": norms})
        frames.append(frame.assign(placement=name, residual=residual, depth=depth))
    return pd.concat(frames, ignore_index=True)
