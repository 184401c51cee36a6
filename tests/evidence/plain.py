"""Student's interval, best settings and steps to a loss, for computations that check those of layernorm_roles."""

import numpy as np
from scipy.special import stdtrit


def interval(values) -> tuple[float, float, float]:
    """Mean and ends of Student's 95 % interval; three NaN for fewer than two values."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return np.nan, np.nan, np.nan
    half = stdtrit(len(values) - 1, 0.975) * values.std(ddof=1) / len(values) ** 0.5
    return values.mean(), values.mean() - half, values.mean() + half


def best(values):
    """The column of a frame with the fewest infinite values, of these the first with the lowest mean of the others."""
    finite = {column: values[column][np.isfinite(values[column])] for column in values}
    return min(
        finite, key=lambda column: (-len(finite[column]), finite[column].sum() / max(len(finite[column]), 1))
    )


def arrival(run, column: str, loss: float) -> float:
    """The step at which a run first has a loss, on a straight line over log(1 + step); infinite if never."""
    run = run.sort_values("step").reset_index(drop=True)
    low = run.index[run[column] <= loss]
    if not len(low):
        return np.inf
    before, after = run.loc[low[0] - 1], run.loc[low[0]]
    share = (before[column] - loss) / (before[column] - after[column])
    return (1 + before.step) ** (1 - share) * (1 + after.step) ** share - 1
