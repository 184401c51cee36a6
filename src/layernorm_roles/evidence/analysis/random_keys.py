"""Numbers of the random keys, from the tables random_keys and random_keys_precision."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate

EXPECTED_KEYS = 10.0
"""Unselectable keys that a cell must lead to expect before its mean is near enough to normal for a z-score."""


def z_scores(norms: pd.DataFrame) -> pd.DataFrame:
    """Table random_keys with columns z and comparable: the simulation against the exact expectation.

    z = (mean_unselectable - expected_unselectable) / (std_unselectable / sqrt(matrices)); NaN where the standard
    deviation is 0 or no formula is known. `comparable` are cells (norm, n, d) that expect at least EXPECTED_KEYS
    unselectable keys in all matrices together: below, a count of rare events is skewed, and its own standard
    deviation a poor yardstick.
    """
    error = norms.std_unselectable / np.sqrt(norms.matrices)
    z = (norms.mean_unselectable - norms.expected_unselectable) / error.where(error > 0)
    return norms.assign(z=z, comparable=norms.expected_unselectable * norms.matrices >= EXPECTED_KEYS)


def share_of_matrices(cells: pd.DataFrame, undecided: bool = False) -> Estimate:
    """Per cent of the matrices of all cells that have an unselectable key, with Clopper and Pearson's interval.

    Counted are certified keys. With `undecided` the share is an upper bound: every key that the data's precision
    cannot decide counts as the unselectable key of one more matrix.
    """
    from scipy import stats  # here, because what shows verdicts imports the claims and needs no interval

    matrices = int(cells.matrices.sum())
    hits = round(float((cells.any_unselectable * cells.matrices).sum()))
    if undecided:
        hits = min(matrices, hits + int(cells.n_borderline.sum()))
    interval = stats.binomtest(hits, matrices).proportion_ci()
    return Estimate(100 * hits / matrices, 100 * interval.low, 100 * interval.high)
