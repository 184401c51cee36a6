"""LayerNorm and BatchNorm: does a token's output depend on who else is in the batch?

Two effects, each the change in the output of one fixed token, root mean square over its features. An output's own
root mean square is about 1, so a change of 0.1 is a tenth of the output. `others`: the other sequences of the batch
are drawn anew. `padding`: zeros after short sequences, none against some.
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
"""Size of a token's vector, and tokens of a sequence."""
PADDING = (0.25, 0.5, 0.75)
"""Shares of a sequence that are padding."""


def write(plan: Mapping[str, Any], out: str | Path) -> None:
    """Write the table batch_dependence to the file `out`; the plan has `settings` and the `seeds` of the draws."""
    frame = measure(BatchDependence.model_validate(plan["settings"]), plan["seeds"])
    store.write(frame, "batch_dependence", out, provenance(plan, "cpu", Stream.BATCH_DEPENDENCE))


def measure(settings: BatchDependence, seeds: Sequence[int]) -> pd.DataFrame:
    """Table `batch_dependence`: one row a norm, effect, batch size and seed; means over `repeats` draws."""
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
    """Each effect on the first token of the batch `first`, as (effect, share of padding, root mean square change).

    `second` gives the other sequences. `name` is a key of NORMS. LayerNorm normalises over features, BatchNorm, in
    training mode, over all tokens of the batch for each feature.
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
