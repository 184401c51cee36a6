"""What the simulation of random keys adds up to, and how many Gaussian keys are unselectable."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from layernorm_roles.evidence.analysis import heads, pretrained, random_keys
from layernorm_roles.gaussian_keys import expected_unselectable


def test_z_scores_follow_from_the_cell_alone():
    cells = pd.DataFrame(
        {
            "matrices": [100, 100, 100, 100, 400, 100],
            "mean_unselectable": [2.25, 2.3, 0.05, 1.0, 0.0, 0.1],
            "expected_unselectable": [2.0, 2.0, 0.05, np.nan, 0.04, 0.1],
            "std_unselectable": [0.75, 0.0, 0.2, 1.0, 0.0, 0.2],
        }
    )
    scored = random_keys.z_scores(cells)
    # a count whose variance is a quarter of its mean; nothing varied; no formula; 16 keys expected and none seen; ten
    expected = [0.25 / (0.5**0.5 / 10), np.nan, 0, np.nan, -4, 0]
    assert [*scored.z] == pytest.approx(expected, nan_ok=True)
    assert list(scored.comparable) == [True, True, False, False, True, True]


def test_share_of_matrices_weighs_cells_by_their_matrices_and_is_a_bound_with_undecided_keys():
    cells = pd.DataFrame({"matrices": [10, 90], "any_unselectable": [1.0, 0.1], "n_borderline": [0, 5]})
    exact = stats.binomtest(19, 100).proportion_ci()
    assert random_keys.share_of_matrices(cells) == pytest.approx((19, 100 * exact.low, 100 * exact.high))
    assert random_keys.share_of_matrices(cells, undecided=True).mean == 24
    assert random_keys.share_of_matrices(cells.assign(n_borderline=100), undecided=True).mean == 100


@pytest.mark.parametrize(("causal", "fewer"), [(False, 0), (True, 0), (False, 1)])
def test_gaussian_keys_are_as_many_as_those_of_every_row(causal, fewer):
    """Three short contexts count three times, and the long one beside them once."""
    sizes = [30, 30, 30, 400]
    keys = pd.DataFrame({"n_keys": sizes, "dimensions": 3, "causal": causal})
    expected = np.mean([100 * expected_unselectable(n, 3 - fewer, causal) / n for n in sizes])
    assert heads.gaussian_percent(keys, fewer) == pytest.approx(expected)
    assert np.isnan(heads.gaussian_percent(keys[:0]))


def test_narrower_models_are_as_wide_with_contexts_as_long_and_the_narrowest_heads_come_first():
    alike = {"asked": 16, "equal": 16, "eights": 8, "again": 8, "twos": 2, "wider": 32}
    models = [(model, 64, 128, d_head) for model, d_head in alike.items()]
    rows = [
        (model, "layernorm", "long", site, d, n)
        for model, d_model, n, d_head in (*models, ("smaller", 32, 128, 4), ("shorter", 64, 96, 4))
        for site, d in (("after_norm", d_model), ("head", d_head))
    ]
    columns = ["model", "variant", "texts", "site", "dimensions", "n_keys"]
    keys = pd.DataFrame(rows, columns=columns)
    assert list(heads.narrower(keys, "asked").items()) == [(2, "twos"), (8, "eights")]
    assert heads.narrower(keys, "absent") == {}


def test_shares_along_the_ones_vector_are_those_of_each_model_s_own_stream():
    shares = pd.DataFrame({"model": [*"aabb"], "dimensions": [4, 8, 16, 64], "ones_share": 0.5})
    assert pretrained.ones_ratios(shares).ratio.tolist() == [4.0, 32.0]
