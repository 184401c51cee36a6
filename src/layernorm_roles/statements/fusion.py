"""Can one matrix replace W_O, attention's output matrix, and W_1, the first of the feed-forward part after it?

The input of the feed-forward part's nonlinearity, with c the concatenated heads and x the residual stream, is

    plain           (c W_O) W_1               norm            LN(c W_O) W_1
    residual        (x + c W_O) W_1           residual_norm   LN(x + c W_O) W_1

Each is predicted by the best linear map of c with intercept, fitted by least squares on some tokens and tested on
others, in layers of random and of trained transformers. For a residual alone a map of x and c, x W_1 + c W_O W_1, is
exact, but it is larger than the two matrices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles import checkpoint
from layernorm_roles.plan import refuse_other_run
from layernorm_roles.random_streams import Stream, generator

ARRANGEMENTS = ("plain", "residual", "norm", "residual_norm")
"""What stands between W_O and W_1: nothing, the residual, LayerNorm, both."""
EXPANSION = 4
"""Hidden units of the feed-forward part of a random block, relative to the width d of the stream."""
TOKENS_PER_INPUT = 16
"""Tokens of a random block, for each input of the map, to which it is fitted; as many others test it."""


class AttentionBlock(NamedTuple):
    """Activations and weights of one layer: `stream` is before attention, `gain` and `bias` of the norm after it."""

    stream: Float[np.ndarray, "tokens d"]
    heads: Float[np.ndarray, "tokens d"]
    w_o: Float[np.ndarray, "d d"]
    b_o: Float[np.ndarray, " d"]
    gain: Float[np.ndarray, " d"]
    bias: Float[np.ndarray, " d"]
    w_1: Float[np.ndarray, "d d_ff"]
    columns: Mapping[str, Any]
    """Columns source, seed and layer of table `fusion`, which identify the block."""


def before_nonlinearity(block: AttentionBlock, arrangement: str) -> Float[np.ndarray, "tokens d_ff"]:
    """The input of the feed-forward nonlinearity, without the bias of W_1; LayerNorm has eps 0."""
    y = block.heads @ block.w_o + block.b_o
    if arrangement.startswith("residual"):
        y = block.stream + y
    if arrangement.endswith("norm"):
        y = y - y.mean(axis=1, keepdims=True)
        y = y / np.sqrt((y**2).mean(axis=1, keepdims=True)) * block.gain + block.bias
    return y @ block.w_1


def missed(heads: Float[np.ndarray, "tokens d"], y: Float[np.ndarray, "tokens d_ff"]) -> float:
    """The share of y's variance that a linear map of `heads`, fitted to the first half of the tokens, misses."""
    x, half = np.column_stack([heads, np.ones(len(heads))]), len(heads) // 2
    # By SVD, not the normal equations: trained activations can be nearly dependent.
    weights = np.linalg.lstsq(x[:half], y[:half], rcond=None)[0]
    return float(
        ((y[half:] - x[half:] @ weights) ** 2).sum() / ((y[half:] - y[half:].mean(axis=0)) ** 2).sum()
    )


def random_blocks(widths: Sequence[int], seeds: Sequence[int]) -> Iterator[AttentionBlock]:
    """Blocks of each width d and seed, with Gaussian activations of variance 1 and weights of variance 1/d."""
    for d, seed in product(widths, seeds):
        rng = generator(Stream.FUSION, seed, d)
        yield AttentionBlock(
            *rng.standard_normal((2, 2 * TOKENS_PER_INPUT * d, d)),
            w_o=rng.standard_normal((d, d)) / np.sqrt(d),
            b_o=np.zeros(d),
            gain=np.ones(d),
            bias=np.zeros(d),
            w_1=rng.standard_normal((d, EXPANSION * d)) / np.sqrt(d),
            columns={"source": "random", "seed": seed, "layer": 1},
        )


def trained_blocks(samples: Iterable[tuple[str | Path, str]]) -> Iterator[AttentionBlock]:
    """The layers of trained language models, from pairs of a file and the hash of the plan it should be made from."""
    for path, made_from in samples:
        tensors, facts = checkpoint.load(path)
        refuse_other_run(path, facts["identity"], made_from)
        layers = [(run, layer) for run in facts["runs"] for layer in range(1, run["layers"] + 1)]
        for run, layer in layers:
            parts = (tensors[f"{run['name']}/layer_{layer}.{part}"] for part in AttentionBlock._fields[:-1])
            columns = {"source": "language_model", "seed": run["seed"], "layer": layer}
            yield AttentionBlock(*(part.numpy() for part in parts), columns=columns)


def measure(blocks: Iterable[AttentionBlock]) -> pd.DataFrame:
    """Table fusion: the share of variance that a linear map of the heads misses, for each block and arrangement."""
    rows = []
    for block in blocks:
        for arrangement in ARRANGEMENTS:
            error = missed(block.heads, before_nonlinearity(block, arrangement))
            rows.append({**block.columns, "d": len(block.gain), "arrangement": arrangement, "error": error})
    return pd.DataFrame(rows)
