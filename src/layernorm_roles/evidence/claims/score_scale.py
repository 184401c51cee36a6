"""What lecture notes say about the division of attention scores by sqrt(d_k)."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, power_law
from layernorm_roles.evidence.claims.claim import (
    Outcome,
    Tables,
    Untestable,
    compare,
    over_seeds,
    paired,
    positive,
    true,
    within,
)


def random_scores(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of table score_scale on random queries and keys drawn from the distribution `source`.

    Raises Untestable unless they have several d_k and several seeds.
    """
    part = table[table.source == source]
    if part.d_k.nunique() < 2:
        raise Untestable("The run has a single d_k.")
    if part.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    return part


def saturates(tables: Tables) -> Outcome:
    """Whether softmax without the division, at the largest d_k, has less entropy and passes less gradient."""
    normal = random_scores(tables["score_scale"], "normal")
    widest = normal[normal.d_k == normal.d_k.max()]
    means = widest.groupby(["divided", "seed"])[["entropy_share", "gradient"]].mean()
    kept, lost = (100 * means.entropy_share[divided] for divided in (True, False))
    gradients, where = (means.gradient[True], means.gradient[False]), f", d_k = {widest.d_k.max()}"
    entropy = "entropy of attention, per cent of the largest"
    with_division, without = (over_seeds(values, "scores at the largest d_k") for values in (kept, lost))
    more, steeper = paired(kept, lost, "scores"), paired(*gradients, "scores")
    trace = "trace of the softmax's Jacobian"
    return Outcome(
        (
            compare(f"not divided{where}", without, len(lost), unit=" %"),
            compare(f"divided minus not divided{where}", *more, positive(), unit=" %", statistic=entropy),
            compare(f"divided minus not divided{where}", *steeper, positive(), statistic=trace, part=1),
            compare(f"divided{where}", with_division, len(kept), role="control", unit=" %", statistic=entropy),
        )
    )


def mean_grows(tables: Tables, exponent: float, tolerance: float) -> Outcome:
    """Whether, with components around 1, both a score and what softmax sees of it grow as d_k."""
    ones = random_scores(tables["score_scale"], "normal_mean_1")
    ones, n = ones[~ones.divided], ones.seed.nunique()
    level, spread = power_law("d_k", "score_mean", ones), power_law("d_k", "score_std", ones)
    asked, statistic = within(exponent, tolerance), "exponent of the scores' standard deviation over d_k"
    return Outcome(
        (
            compare("mean", level, n, asked),
            compare("standard deviation", spread, n, asked, "control", statistic=statistic, part=1),
        )
    )


def reasonable(tables: Tables, below: float) -> Outcome:
    """Whether the divided scores of trained language models stay `below`: in every head, in some, or in none."""
    table = tables["score_scale"]
    part = table[(table.source == "language_model") & table.divided & (table.variant == "layernorm")]
    if part.empty:
        raise Untestable("The run has no scores of these models with LayerNorm.")
    seeds = part.groupby("seed").score_std.mean()
    size = over_seeds(seeds, "these models")
    normal = table[(table.source == "normal") & table.divided].groupby("seed").score_std.mean()
    heads = part.score_std
    largest, least = (Estimate(end, np.nan, np.nan) for end in (heads.max(), heads.min()))
    asked, n, each = f"less than {below:g}", len(seeds), "standard deviation of the divided scores of a head"
    return Outcome(
        (
            compare("layernorm, mean", size, n),
            compare("largest of all heads", largest, n, true(largest.mean < below, asked), statistic=each),
            compare("smallest of all heads", least, n, true(least.mean < below, asked), statistic=each, part=1),
            compare("random unit normals", Estimate.of_any(normal), len(normal), role="control"),
        )
    )


TESTS = {"saturates": saturates, "mean_grows": mean_grows, "reasonable": reasonable}
