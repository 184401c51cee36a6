"""Numbers of the random keys, from the tables random_keys and random_keys_precision."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, binomial

EXPECTED_KEYS = 10.0
"""Least number of unselectable keys expected in all matrices of n keys in d dimensions, so that a z-score is normal."""


def z_scores(norms: pd.DataFrame) -> pd.DataFrame:
    """Return table random_keys with columns z and comparable, which hold the simulation against the exact expectation.

    z = (mean_unselectable - expected_unselectable) / standard error. A rare count of few keys has few values, and the
    fewer it happened to see, the smaller is its own standard deviation. The standard error is therefore that at the
    expected mean: sqrt(expected_unselectable * dispersion / matrices), where the dispersion is the variance of the
    count divided by its mean, and 1, as of Poisson's distribution, where no key was seen. z is NaN where the counts
    are all equal and not 0, or no formula is known. `comparable` are cells (norm, n, d) that expect at least
    EXPECTED_KEYS unselectable keys in all matrices together: below, a count is too skewed.
    """
    mean, expected = norms.mean_unselectable, norms.expected_unselectable
    dispersion = (norms.std_unselectable**2 / mean.where(mean > 0)).where(mean > 0, 1.0)
    error = np.sqrt(expected * dispersion / norms.matrices)
    return norms.assign(
        z=(mean - expected) / error.where(error > 0), comparable=expected * norms.matrices >= EXPECTED_KEYS
    )


def share_of_matrices(cells: pd.DataFrame, undecided: bool = False) -> Estimate:
    """Return the per cent of matrices with an unselectable key, with Clopper and Pearson's interval.

    `cells` are rows of table random_keys, taken together. Counted are certified keys. With `undecided` the share is an
    upper bound: every key that the data's precision cannot decide counts as the unselectable key of one more matrix.
    """
    matrices = int(cells.matrices.sum())
    hits = round(float((cells.any_unselectable * cells.matrices).sum()))
    if undecided:
        hits = min(matrices, hits + int(cells.n_borderline.sum()))
    return binomial(hits, matrices).map(lambda share: 100 * share)
