"""What the division by sqrt(d_k) does to attention: to the spread of scores, the entropy of weights and the gradient.

For independent components of mean 0 and variance 1 the score q.k has standard deviation sqrt(d_k), and 1 after the
division. With components around 1 the mean of the scores grows as d_k, which does not change the softmax.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.special import entr, softmax

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale

KEYS = 128
"""Number of keys of a random attention head, and of its queries."""
MEANS = {"normal": 0.0, "normal_mean_1": 1.0}
"""The mean of random queries' and keys' components, by the value of column source; lecture notes say "around 1"."""


def write(plan: Mapping[str, Any], out: str | Path) -> None:
    """Measure what the division of attention scores by sqrt(d_k) does, and write the table `score_scale`.

    `plan` has the fields of `ScoreScale` under `settings`, and `seeds`; `out` is the path of the Parquet file.
    """
    frame = measure(ScoreScale.model_validate(plan["settings"]), plan["seeds"])
    store.write(frame, "score_scale", out, provenance(plan, "cpu", Stream.SCORE_SCALE))


def measure(settings: ScoreScale, seeds: Sequence[int]) -> pd.DataFrame:
    """The table `score_scale`: statistics of random attention heads, with scores divided by sqrt(d_k) or not.

    It has two rows for each distribution of queries and keys, dimension d_k and seed: without and with the division.
    """
    rows = []
    for (source, mean), d_k, seed in product(MEANS.items(), settings.d_k, seeds):
        queries, keys = mean + generator(Stream.SCORE_SCALE, seed, d_k).standard_normal((2, KEYS, d_k))
        for divided in (False, True):
            named = {"source": source, "seed": seed, "d_k": d_k, "divided": divided}
            rows.append(named | statistics(queries, keys, divided))
    return pd.DataFrame(rows)


def statistics(
    queries: Float[np.ndarray, "n_queries d_k"], keys: Float[np.ndarray, "n_keys d_k"], divided: bool
) -> dict[str, float]:
    """Statistics of one attention head, by name: score_mean, score_std, entropy_share and gradient.

    If `divided`, scores are divided by sqrt(d_k). score_mean and score_std are over all scores. The other two are means
    over queries with attention weights p: entropy_share is the entropy of p divided by ln(n), for n keys; gradient is
    the trace of the softmax's Jacobian, 1 - sum p^2, which is 0 where one key takes all attention.
    """
    scores = queries @ keys.T / (np.sqrt(keys.shape[1]) if divided else 1)
    weights = softmax(scores, axis=1)
    return {
        "score_mean": float(scores.mean()),
        "score_std": float(scores.std()),
        "entropy_share": float(entr(weights).sum(axis=1).mean() / np.log(len(keys))),
        "gradient": float((1 - (weights**2).sum(axis=1)).mean()),
    }
