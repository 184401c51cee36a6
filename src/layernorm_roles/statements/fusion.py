"""Can one matrix replace W_O, attention's output matrix, and W_1, the first of the feed-forward part after it?

The input of the feed-forward part's nonlinearity, with c the concatenated heads and x the residual stream, is

    plain           (c W_O) W_1               norm            LN(c W_O) W_1
    residual        (x + c W_O) W_1           residual_norm   LN(x + c W_O) W_1

Each is predicted by the best linear map of c with intercept, fitted by least squares on some tokens and tested on
others, in layers of random and of trained transformers. For a residual alone a map of x and c, x W_1 + c W_O W_1, is
exact, but it is larger than the two matrices.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from layernorm_roles import checkpoint, store
from layernorm_roles.plan import Plan, refuse_other_run
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Fusion

ARRANGEMENTS = ("plain", "residual", "norm", "residual_norm")
"""What may stand between attention's W_O and the feed-forward part's W_1: nothing, the residual, LayerNorm, both."""
EXPANSION = 4
"""Hidden units of the feed-forward part of a random transformer block, relative to the width d of the stream."""
TOKENS_PER_INPUT = 16
"""Tokens of a random block to which a linear map is fitted, for each input of the map; as many others test it."""


class AttentionBlock(NamedTuple):
    """Activations and weights of one layer, from attention's output to the feed-forward part, on a sample of tokens.

    `stream` is the residual stream before attention, and `heads` the concatenated outputs of the heads. `w_o` and `b_o`
    are weight and bias of attention's output matrix, `gain` and `bias` belong to the LayerNorm after attention, and
    `w_1` is the first weight of the feed-forward part.
    """

    stream: Float[np.ndarray, "tokens d"]
    heads: Float[np.ndarray, "tokens d"]
    w_o: Float[np.ndarray, "d d"]
    b_o: Float[np.ndarray, " d"]
    gain: Float[np.ndarray, " d"]
    bias: Float[np.ndarray, " d"]
    w_1: Float[np.ndarray, "d d_ff"]
    columns: Mapping[str, Any]
    """Columns source, seed and layer of table `fusion`, which identify the block."""


def write(plan: Plan, samples: Iterable[str | Path], out: str | Path) -> None:
    """Measure how well one matrix can replace attention's W_O and the feed-forward W_1, and write the table `fusion`.

    `plan` has settings, the `seeds` of random layers, and under `made_by` the names of the jobs that should have
    written the files `samples`, which have activations of trained layers. `out` is the path of the Parquet file. Raises
    ValueError if a file of `samples` is missing, damaged, or written by a job with another plan.
    """
    settings = Fusion.model_validate(plan["settings"])
    trained = trained_blocks(zip(samples, plan["made_by"].values(), strict=True))
    frame = measure(chain(random_blocks(settings.d_model, plan["seeds"]), trained))
    store.write(frame, "fusion", out, provenance(plan, "cpu", Stream.FUSION))


def before_nonlinearity(block: AttentionBlock, arrangement: str) -> Float[np.ndarray, "tokens d_ff"]:
    """The input of the feed-forward nonlinearity in `block`, with `arrangement` between the matrices W_O and W_1.

    W_O is attention's output matrix, W_1 the first feed-forward matrix, here without a bias. `arrangement` is "plain"
    (nothing), "residual" (the residual sum), "norm" (LayerNorm, eps 0) or "residual_norm" (the sum, then LayerNorm).
    """
    y = block.heads @ block.w_o + block.b_o
    if arrangement.startswith("residual"):
        y = block.stream + y
    if arrangement.endswith("norm"):
        y = y - y.mean(axis=1, keepdims=True)
        y = y / np.sqrt((y**2).mean(axis=1, keepdims=True)) * block.gain + block.bias
    return y @ block.w_1


def linear_errors(
    inputs: Float[np.ndarray, "tokens a"], outputs: list[Float[np.ndarray, "tokens b"]], n_fit: int
) -> list[float]:
    """For each of `outputs`, the share of its variance that a linear map of `inputs` leaves unexplained.

    The maps, with intercepts, are fitted to the first `n_fit` tokens by least squares. The share is measured on the
    other tokens.
    """
    design = np.column_stack([inputs, np.ones(len(inputs))])
    # By SVD, not the normal equations: trained activations can be nearly dependent.
    solution = np.linalg.lstsq(design[:n_fit], np.column_stack([y[:n_fit] for y in outputs]), rcond=None)[0]
    predicted = np.split(design[n_fit:] @ solution, len(outputs), axis=1)
    held_out = [y[n_fit:] for y in outputs]
    return [
        float(((y - y_hat) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum())
        for y, y_hat in zip(held_out, predicted, strict=True)
    ]


def random_blocks(widths: Sequence[int], seeds: Sequence[int]) -> Iterator[AttentionBlock]:
    """Yield an `AttentionBlock` with random activations and weights for each width d in `widths` and each seed.

    Activations are Gaussian with variance 1, and weights are Gaussian with variance 1/d.
    """
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
    """Yield the activations and weights of trained language models, model by model and layer by layer.

    `samples` has pairs: the path of a file, and the hash of the plan that it should be made from. Raises ValueError if
    a file is missing, damaged or made from another plan.
    """
    for path, made_from in samples:
        tensors, facts = checkpoint.load(path)
        refuse_other_run(path, facts["identity"], made_from)
        layers = [(run, layer) for run in facts["runs"] for layer in range(1, run["layers"] + 1)]
        for run, layer in layers:
            parts = (tensors[f"{run['name']}/layer_{layer}.{part}"] for part in AttentionBlock._fields[:-1])
            columns = {"source": "language_model", "seed": run["seed"], "layer": layer}
            yield AttentionBlock(*(part.numpy() for part in parts), columns=columns)


def measure(blocks: Iterable[AttentionBlock]) -> pd.DataFrame:
    """The table `fusion`: how well a linear map of the heads predicts the input of the feed-forward nonlinearity.

    It has a row for each block and each arrangement in `before_nonlinearity`. The column error is the share of variance
    that the map leaves unexplained, on tokens to which it was not fitted.
    """
    rows = []
    for block in blocks:
        outputs = [before_nonlinearity(block, arrangement) for arrangement in ARRANGEMENTS]
        errors = linear_errors(block.heads, outputs, len(block.heads) // 2)
        for arrangement, error in zip(ARRANGEMENTS, errors, strict=True):
            sizes = {"d": block.w_o.shape[1], "arrangement": arrangement, "error": error}
            rows.append({**block.columns, **sizes})
    return pd.DataFrame(rows)
