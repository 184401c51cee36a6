"""Does the output of LayerNorm or BatchNorm at one token depend on the rest of the batch?

Measured is how much the output, of root mean square about 1, changes if the other sequences of the batch are replaced,
and if the sequences' last vectors are set to zero (padding) instead of being cut off.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence

NORMS = {"layernorm": nn.LayerNorm, "batchnorm": nn.BatchNorm1d}
WIDTH, TOKENS = 64, 16
"""Size of a token's vector, and number of tokens of a sequence, in the random batches that are normalised."""
PADDING = (0.25, 0.5, 0.75)
"""Shares of padding in a sequence for which changes of LayerNorm's and BatchNorm's outputs are measured."""


def write(plan: Mapping[str, Any], out: str | Path) -> None:
    """Measure how LayerNorm's and BatchNorm's outputs depend on the batch, and write the table `batch_dependence`.

    `plan` has the fields of `BatchDependence` under `settings`, and `seeds`; `out` is the path of the Parquet file.
    """
    frame = measure(BatchDependence.model_validate(plan["settings"]), plan["seeds"])
    store.write(frame, "batch_dependence", out, provenance(plan, "cpu", Stream.BATCH_DEPENDENCE))


def measure(settings: BatchDependence, seeds: Sequence[int]) -> pd.DataFrame:
    """The table `batch_dependence`: how much a norm's output at one token changes if the rest of the batch does.

    A row has the mean over random batches, for one norm, effect (see `effects`), batch size, share of padding and seed.
    """
    rows = []
    for seed, batch in product(seeds, settings.batch_sizes):
        rng = generator(Stream.BATCH_DEPENDENCE, seed, batch)
        for _ in range(settings.repeats):
            first, second = torch.from_numpy(rng.standard_normal((2, batch, TOKENS, WIDTH)))
            for name in NORMS:
                for effect, share, change in effects(name, first, second):
                    rows.append((name, effect, batch, share, seed, change))
    keys = ["norm", "effect", "batch_size", "padding", "seed"]
    frame = pd.DataFrame(rows, columns=[*keys, "change"])
    return frame.groupby(keys, as_index=False, sort=False)["change"].mean()


def effects(
    name: str, first: Float[Tensor, "batch tokens d"], second: Float[Tensor, "batch tokens d"]
) -> Iterator[tuple[str, float, float]]:
    """Yield (effect, share of padding, change) for a norm's output at the first token of the batch `first`.

    `name` is the norm, "layernorm" or "batchnorm"; BatchNorm normalises each feature over all tokens of the batch. For
    the effect "others", all sequences but the first are replaced by those of `second`. For "padding", the last vectors
    of every sequence, a share of 0.25, 0.5 or 0.75, are set to 0 instead of being cut off. The change is the root mean
    square, over features, of the difference between the two outputs.
    """

    @torch.no_grad()
    def output(x: Tensor) -> Tensor:
        return NORMS[name](x.shape[-1], dtype=x.dtype)(x.flatten(0, 1))[0]

    def change(x: Tensor, y: Tensor) -> float:
        return float((output(x) - output(y)).square().mean().sqrt())

    if len(first) > 1:  # a sequence alone has no others
        yield "others", 0.0, change(first, torch.cat([first[:1], second[1:]]))
    for share in PADDING:
        real = round(first.shape[1] * (1 - share))  # the tokens of a sequence before its padding
        padded = first.clone()
        padded[:, real:] = 0
        yield "padding", share, change(first[:, :real], padded)
