"""What lecture notes say of the batch and of attention scores, tested on random vectors.

`batch_dependence`: does the output of LayerNorm or BatchNorm, of root mean square about 1, depend at one token on the
other sequences of the batch, and on padding with zeros?

`score_scale`: what does the division by sqrt(d_k) do to scores, attention weights and gradients? For independent
components of mean 0 and variance 1 the score q.k has standard deviation sqrt(d_k), and 1 after the division. With
components around 1 the mean of the scores grows as d_k, which does not change the softmax.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence, ScoreScale

NORMS = {"layernorm": nn.LayerNorm, "batchnorm": nn.BatchNorm1d}
WIDTH, TOKENS = 64, 16
"""Size of a token's vector, and tokens of a sequence, in the batches that are normalised."""
PADDING = (0.25, 0.5, 0.75)
"""Shares of padding in a sequence."""
KEYS = 128
"""Number of keys of an attention head, and of its queries."""
MEANS = {"normal": 0.0, "normal_mean_1": 1.0}
"""Mean of the components of queries and keys, by the value of column source; lecture notes say "around 1"."""


def batch_dependence(settings: BatchDependence, seeds: Sequence[int]) -> pd.DataFrame:
    """Table batch_dependence: the change of a norm's output at one token, a mean over `settings.repeats` batches."""
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
    norm: str, first: Float[Tensor, "batch tokens d"], second: Float[Tensor, "batch tokens d"]
) -> Iterator[tuple[str, float, float]]:
    """Yield (effect, share of padding, root mean square change) for the output at the first token of `first`.

    For "others" all sequences but the first become those of `second`. For "padding" the last vectors of every sequence
    are set to 0 instead of being cut off. BatchNorm normalises each feature over all tokens of the batch.
    """

    @torch.no_grad()
    def output(x: Tensor) -> Tensor:
        return NORMS[norm](WIDTH, dtype=x.dtype)(x.flatten(0, 1))[0]

    def change(x: Tensor, y: Tensor) -> float:
        return float((output(x) - output(y)).square().mean().sqrt())

    if len(first) > 1:  # a sequence alone has no others
        yield "others", 0.0, change(first, torch.cat([first[:1], second[1:]]))
    for share in PADDING:
        real = round(TOKENS * (1 - share))
        padded = first.clone()
        padded[:, real:] = 0
        yield "padding", share, change(first[:, :real], padded)


def score_scale(settings: ScoreScale, seeds: Sequence[int]) -> pd.DataFrame:
    """Table score_scale: of random attention heads, with scores divided by sqrt(d_k) and not.

    The share of entropy is 1 for equal weights; the gradient, the trace of the softmax's Jacobian, 1 - sum p^2, is 0
    where one key takes all attention. Both are means over queries.
    """
    rows = []
    for (source, mean), d_k, seed in product(MEANS.items(), settings.d_k, seeds):
        drawn = mean + generator(Stream.SCORE_SCALE, seed, d_k).standard_normal((2, KEYS, d_k))
        queries, keys = torch.from_numpy(drawn)
        for divided in (False, True):
            scores = queries @ keys.T / (d_k**0.5 if divided else 1)
            weights = scores.softmax(dim=1)
            named = {"source": source, "seed": seed, "d_k": d_k, "divided": divided}
            found = {
                "score_mean": scores.mean(),
                "score_std": scores.std(correction=0),
                "entropy_share": torch.special.entr(weights).sum(dim=1).mean() / np.log(KEYS),
                "gradient": (1 - weights.square().sum(dim=1)).mean(),
            }
            rows.append(named | {name: value.item() for name, value in found.items()})
    return pd.DataFrame(rows)
