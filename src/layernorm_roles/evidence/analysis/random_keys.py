"""Numbers of the random keys, from the tables random_keys and random_keys_precision."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, binomial

EXPECTED_KEYS = 10.0
"""Least number of unselectable keys expected in all matrices of one size for which a z-score is about normal."""


def z_scores(norms: pd.DataFrame) -> pd.DataFrame:
    """Return table random_keys with columns z and comparable, which compare the simulation with exact expectations.

    z = (mean_unselectable - expected_unselectable) / sqrt(expected_unselectable * dispersion / matrices). The
    denominator is a standard error at the expected mean, since a rare event that is seen too rarely understates its
    error. The dispersion is variance / mean of the count, or 1 (Poisson's) where no unselectable key was seen. z is NaN
    where the error is 0 or no formula is known. comparable is True where at least EXPECTED_KEYS unselectable keys are
    expected in all matrices.
    """
    mean, expected = norms.mean_unselectable, norms.expected_unselectable
    dispersion = (norms.std_unselectable**2 / mean.where(mean > 0)).where(mean > 0, 1.0)
    error = np.sqrt(expected * dispersion / norms.matrices)
    return norms.assign(
        z=(mean - expected) / error.where(error > 0), comparable=expected * norms.matrices >= EXPECTED_KEYS
    )


def share_of_matrices(cells: pd.DataFrame, undecided: bool = False) -> Estimate:
    """Return the percentage of matrices with a certified unselectable key, with Clopper and Pearson's 95 % interval.

    `cells` are rows of table random_keys, which are pooled. With `undecided` the result is an upper bound: every key
    that the data's precision cannot decide counts as an unselectable key in a further matrix.
    """
    matrices = int(cells.matrices.sum())
    hits = round(float((cells.any_unselectable * cells.matrices).sum()))
    if undecided:
        hits = min(matrices, hits + int(cells.n_borderline.sum()))
    return binomial(hits, matrices).map(lambda share: 100 * share)
