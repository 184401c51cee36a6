"""What lecture notes say about the division of attention scores by sqrt(d_k)."""

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, power_law, span
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    Outcome,
    Tables,
    Untestable,
    direction,
    over_seeds,
    paired,
    statement,
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

    def by_division(column: str) -> tuple[pd.Series, pd.Series]:
        means = widest.groupby(["divided", "seed"])[column].mean()
        return means[True], means[False]

    gradients = by_division("gradient")
    kept, lost = (100 * values for values in by_division("entropy_share"))
    with_division, without = (over_seeds(values, "scores at the largest d_k") for values in (kept, lost))
    parts = [direction(paired(kept, lost, "scores")), direction(paired(*gradients, "scores"))]
    reason = (
        f"At d_k = {widest.d_k.max()} attention has {without:.1f} % of the largest entropy without the division and "
        f"{with_division:.1f} % with it; the trace of the softmax's Jacobian is {gradients[1].mean():.2f} and "
        f"{gradients[0].mean():.2f}."
    )
    return statement(parts, without, len(lost), reason, with_division)


def mean_grows(tables: Tables) -> Outcome:
    """Whether, with components around 1, both a score and what softmax sees of it grow as d_k."""
    ones = random_scores(tables["score_scale"], "normal_mean_1")
    ones = ones[~ones.divided]
    level, spread = power_law("d_k", "score_mean", ones), power_law("d_k", "score_std", ones)
    parts = [within(exponent, 1.0, rules.EXPONENT) for exponent in (level, spread)]
    reason = (
        f"Its mean grows as d_k to the power {level:.3f}, but softmax does not see what all keys share; the spread, "
        f"which it sees, grows to the power {spread:.3f}, and that is what the division is for."
    )
    return statement(parts, level, ones.seed.nunique(), reason, spread)


def reasonable(tables: Tables) -> Outcome:
    """Whether the divided scores of trained language models stay below SCORES: in every head, in some, or in none."""
    table = tables["score_scale"]
    part = table[(table.source == "language_model") & table.divided & (table.variant == "layernorm")]
    if part.empty:
        raise Untestable("The run has no scores of these models with LayerNorm.")
    seeds = part.groupby("seed").score_std.mean()
    size = over_seeds(seeds, "these models")
    normal = table[(table.source == "normal") & table.divided].groupby("seed").score_std.mean()
    parts = [true(part.score_std.max() < rules.SCORES), true(part.score_std.min() < rules.SCORES)]
    reason = (
        f"After training the divided scores have a standard deviation of {size:.2f} (d_k = {part.d_k.iloc[0]}; "
        f"{span(part.score_std, '.2f')} over runs, layers and heads), where random unit "
        "normals have 1: the division sets the start, training the rest."
    )
    return statement(parts, size, len(seeds), reason, Estimate.of_any(normal))


TESTS = {"score_saturation": saturates, "score_mean": mean_grows, "scores_language_model": reasonable}
