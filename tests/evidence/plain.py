"""Student's interval, best settings and steps to a loss, for computations that check those of layernorm_roles."""

import numpy as np
import pandas as pd
from scipy.special import stdtrit


def interval(values, level=0.95) -> tuple[float, float, float]:
    """Mean and ends of Student's interval; three NaN for fewer than two values."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return np.nan, np.nan, np.nan
    half = stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean(), values.mean() - half, values.mean() + half


def best(values):
    """The column of a frame with the fewest infinite values, of these the first with the lowest mean of the others."""
    finite = {column: values[column][np.isfinite(values[column])] for column in values}
    return min(
        finite, key=lambda column: (-len(finite[column]), finite[column].sum() / max(len(finite[column]), 1))
    )


def at_best_rates(runs: pd.DataFrame, worse: str) -> pd.DataFrame:
    """The rows of each seed at the rate with the lowest `worse` in the other half of its variant's seeds."""
    chosen = [runs.iloc[:0]]
    for _, own in runs.groupby("variant"):
        values = own.pivot(index="seed", columns="base_learning_rate", values=worse)
        for i, seed in enumerate(values.index):
            half = values.iloc[(i + 1) % 2 :: 2]
            if len(half) or len(values.columns) == 1:
                chosen.append(own[(own.seed == seed) & (own.base_learning_rate == best(half))])
    return pd.concat(chosen)


def arrivals(metrics: pd.DataFrame, run: list[str], column: str, level: float) -> pd.DataFrame:
    """Steps until a column is at most `level`, on a straight line over log(1 + step); NaN if never.

    A row for each combination of the columns `run`, with the columns last_step and steps.
    """
    m = metrics.sort_values("step").reset_index(drop=True)
    before = m.groupby(run)[["step", column]].shift()
    share = (before[column] - level) / (before[column] - m[column])
    share = share.where(np.isfinite(before[column]), 1.0)
    m["steps"] = (1 + before.step.fillna(0)) ** (1 - share) * (1 + m.step) ** share - 1
    steps = m[m[column] <= level].drop_duplicates(run).set_index(run).steps
    return m.groupby(run).step.max().astype(float).to_frame("last_step").join(steps)
