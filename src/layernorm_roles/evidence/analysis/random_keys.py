"""Numbers of the random keys, from the tables random_keys and random_keys_precision."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import LEVEL, Estimate, binomial

EXPECTED_KEYS = 10.0
"""Least number of unselectable keys expected in all matrices of one size for which a z-score is about normal."""


def z_scores(norms: pd.DataFrame) -> pd.DataFrame:
    """Return table random_keys with columns z and comparable, which compare the simulation with exact expectations.

    z = (mean_unselectable - expected_unselectable) / sqrt(expected_unselectable * dispersion / matrices). The
    denominator is a standard error for the expected mean, because a mean of too few rare events would make it too
    small. The dispersion is variance / mean of the number of unselectable keys in a matrix, or 1 if none was seen. z is
    NaN where the error is 0 or no exact expectation is known. comparable is True where at least 10 (EXPECTED_KEYS)
    unselectable keys are expected in all matrices together.
    """
    mean, expected = norms.mean_unselectable, norms.expected_unselectable
    dispersion = (norms.std_unselectable**2 / mean.where(mean > 0)).where(mean > 0, 1.0)
    error = np.sqrt(expected * dispersion / norms.matrices)
    return norms.assign(
        z=(mean - expected) / error.where(error > 0), comparable=expected * norms.matrices >= EXPECTED_KEYS
    )


def share_of_matrices(cells: pd.DataFrame, undecided: bool = False, level: float = LEVEL) -> Estimate:
    """Return the percentage of matrices with at least one certified unselectable key, with its interval.

    `cells` are rows of table random_keys, whose matrices are pooled; the interval is Clopper and Pearson's. With
    `undecided`, each key that the data's precision cannot decide counts as one more matrix with an unselectable key.
    """
    matrices = int(cells.matrices.sum())
    hits = round(float((cells.any_unselectable * cells.matrices).sum()))
    if undecided:
        hits = min(matrices, hits + int(cells.n_borderline.sum()))
    return binomial(hits, matrices, level).map(lambda share: 100 * share)
