"""LayerNorm and BatchNorm: does a token's output depend on who else is in the batch?

Three effects, each the change in the output of one fixed token, root mean square over its features. An output's own
root mean square is about 1, so a change of 0.1 is a tenth of the output.
`others`: the other sequences of the batch are drawn anew. `mode`: training against evaluation mode, the running
statistics being those of `updates` earlier batches. `padding`: zeros after short sequences, none against some.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence

NORMS = {"layernorm": nn.LayerNorm, "batchnorm": nn.BatchNorm1d}


def apply(norm: nn.Module, x: Float[Tensor, "batch tokens d"]) -> Float[Tensor, "batch tokens d"]:
    """The norm over features (LayerNorm), or over all tokens of the batch for each feature (BatchNorm)."""
    return norm(x.flatten(0, 1)).view_as(x)


def rms(x: Tensor) -> float:
    """The root mean square of the entries of `x`."""
    return float(x.square().mean().sqrt())


def write(settings: BatchDependence, seeds: Sequence[int], out: str | Path) -> None:
    """Write the table batch_dependence to the file `out`."""
    plain = {**settings.model_dump(mode="json"), "seeds": list(seeds)}
    origin = provenance(plain, "cpu", Stream.BATCH_DEPENDENCE)
    store.write(measure(settings, seeds), "batch_dependence", out, origin)


def measure(settings: BatchDependence, seeds: Sequence[int]) -> pd.DataFrame:
    """Table `batch_dependence`: one row a norm, effect, batch size and seed; means over `repeats` draws."""
    rows = []
    for seed, batch in product(seeds, settings.batch_sizes):
        rng = generator(Stream.BATCH_DEPENDENCE, seed, batch)
        for _ in range(settings.repeats):
            drawn = rng.standard_normal((2 + settings.updates, batch, settings.tokens, settings.d_model))
            first, second, *earlier = torch.from_numpy(drawn)
            for name in NORMS:
                for effect, share, change in _effects(name, first, second, earlier, settings.padding):
                    rows.append((name, effect, batch, share, seed, change))
    keys = ["norm", "effect", "batch_size", "padding", "seed"]
    frame = pd.DataFrame(rows, columns=[*keys, "change"])
    return frame.groupby(keys, as_index=False, sort=False)["change"].mean()


def _effects(
    name: str, first: Tensor, second: Tensor, earlier: list[Tensor], paddings: tuple[float, ...]
) -> Iterator[tuple[str, float, float]]:
    """(effect, share of padding, change of the first token of the batch `first`)."""
    width = first.shape[-1]
    norm = NORMS[name](width, dtype=first.dtype)
    with torch.no_grad():
        if len(first) > 1:  # a sequence alone has no others
            mixed = torch.cat([first[:1], second[1:]])
            yield "others", 0.0, rms(apply(norm, first)[0, 0] - apply(norm, mixed)[0, 0])

        for share in paddings:
            real = round(first.shape[1] * (1 - share))  # the tokens of a sequence before its padding
            padded = first.clone()
            padded[:, real:] = 0
            yield "padding", share, rms(apply(norm, first[:, :real])[0, 0] - apply(norm, padded)[0, 0])

        norm = NORMS[name](width, dtype=first.dtype)
        for x in earlier:
            apply(norm, x)
        norm.eval()
        evaluated = apply(norm, first)
        yield "mode", 0.0, rms(apply(norm.train(), first)[0, 0] - evaluated[0, 0])
