"""Numbers of pretrained models, on tables whose truth is known by construction."""

import numpy as np
import pandas as pd
import pytest
import worlds
from scipy import stats

from layernorm_roles.evidence.analysis import pretrained
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import AS_USED, NORM, OWN, WITHOUT_NORM

BELOW = {AS_USED: (0.1, 0.3), WITHOUT_NORM: 0.5}


def ceilings(**changed):
    return worlds.attention_ceilings(BELOW, **{"received": 0.1, "unknown": 0.05} | changed)


def pairs():
    return worlds.ceiling_pairs(BELOW, received=0.1, unknown=0.05)


def of(shares, queries, normalised, layer, threshold=0.5):
    return shares[
        (shares.queries == queries)
        & (shares.normalised == normalised)
        & (shares.layer == layer)
        & (shares.threshold == threshold)
    ].iloc[0]


def test_shares_below_are_means_over_contexts_with_their_interval():
    row = of(pretrained.shares_below(ceilings()), NORM, AS_USED, 2)
    contexts = 100 * np.array([60, 62, 65, 67]) / 200  # 0.3 of 200 keys, 4 % more in each context
    half = stats.t.ppf(0.975, 3) * contexts.std(ddof=1) / 2
    assert [row.percent, row.low, row.high] == pytest.approx(
        [contexts.mean(), contexts.mean() - half, contexts.mean() + half]
    )
    assert (row.contexts, row.heads) == (4, 2)


def test_pairs_whose_bounds_enclose_the_threshold_are_undecided():
    shares = pretrained.shares_below(ceilings())
    assert of(shares, NORM, AS_USED, 1).undecided_percent == pytest.approx(5)
    assert of(shares, NORM, WITHOUT_NORM, 1).undecided_percent == 0
    assert of(shares, OWN, AS_USED, 1).undecided_percent == 0


def test_the_own_queries_are_a_set_whose_ceilings_are_what_they_give():
    row = of(pretrained.shares_below(ceilings()), OWN, AS_USED, 1)
    got = 100 * np.array([20, 19, 18, 18]) / 200
    assert row.percent == pytest.approx(100 - got.mean())


def test_a_single_context_has_no_interval():
    row = of(pretrained.shares_below(ceilings(contexts=1)), NORM, AS_USED, 1)
    assert row.percent == pytest.approx(10) and np.isnan([row.low, row.high]).all()


def test_quantiles_show_both_tails():
    table = pairs().assign(lower=0.01)  # quantiles are those of the upper bounds
    found = (
        pretrained.quantiles(worlds.ceilings(table))
        .set_index(["queries", "normalised", "layer", "quantile"])
        .ceiling
    )
    # One head's low ceilings are 0.25, the other's 0.45, and all others 0.9.
    assert found[NORM, AS_USED, 2, 0.01] == pytest.approx(0.25)
    assert found[NORM, AS_USED, 2, 0.25] == pytest.approx(0.45)
    assert found[NORM, AS_USED, 2, 0.99] == pytest.approx(0.9)
    assert found[OWN, AS_USED, 2, 0.5] == pytest.approx(0.04)
    assert found[OWN, AS_USED, 2, 0.99] == pytest.approx(0.8)


def test_tokens_come_from_the_layer_where_most_keys_are_below_and_in_order():
    found = pretrained.tokens_below(worlds.token_ceilings(pairs()))
    assert list(found.token) == ["the", "of", "norm"] and set(found.layer) == {2}
    the, of_, norm = found.itertuples()
    assert (the.occurrences, of_.occurrences, norm.occurrences) == (80, 520, 200)
    assert the.percent == 100 and norm.percent == 0
    # Of each context's 60 to 67 low keys the first 20 are of another token.
    assert of_.percent == pytest.approx(100 * np.mean([40, 42, 45, 47]) / 130)
    assert (norm.ceiling, norm.received) == pytest.approx((0.9, 0.8))


def test_heads_are_counted_by_context_and_layer_and_the_undecided_apart():
    keys = worlds.pretrained_keys({("head", 32): (0.1, 0.2), ("head_cut", 2): 0.9}, undecided=0.05)
    certified = pretrained.unselectable_in_heads(keys, "head")
    np.testing.assert_allclose(certified.loc[0], [10, 20])
    np.testing.assert_allclose(
        pretrained.unselectable_in_heads(keys, "head", undecided=True).loc[0], [15, 25]
    )
    causal = keys.assign(causal=True, n_unselectable=0)
    both = pd.concat([keys, causal])
    pd.testing.assert_frame_equal(pretrained.unselectable_in_heads(both, "head"), certified)


def test_cut_heads_stand_beside_as_many_gaussian_keys():
    keys = worlds.pretrained_keys({("head", 32): 0.0, ("head_cut", 2): (0.8, 0.9)}, undecided=0.05)
    found = pretrained.cut_heads(keys).set_index(["layer", "dimensions"])
    assert list(found.index) == [(1, 2), (1, 32), (2, 2), (2, 32)]
    assert found.percent[1, 2] == pytest.approx(100 * np.mean([160, 163, 166, 170]) / 200)
    assert found.gaussian_percent[1, 2] == pytest.approx(100 * expected_unselectable(200, 2) / 200)
    assert found.undecided_percent[1, 32] == pytest.approx(100 * np.mean([10, 10, 10, 11]) / 200)


def test_the_interval_of_a_token_is_over_the_means_of_contexts():
    token = pretrained.tokens_below(worlds.token_ceilings(pairs())).set_index("token").loc["of"]
    contexts = 100 * np.array([40, 42, 45, 47]) / 130
    half = stats.t.ppf(0.975, 3) * contexts.std(ddof=1) / 2
    assert (token.low, token.high) == pytest.approx((contexts.mean() - half, contexts.mean() + half))


def test_the_share_of_a_token_lies_in_its_interval_however_often_a_context_has_it():
    """Where it is low most often it stands ten times as often as elsewhere."""
    table = pairs()
    of_ = (table.token == "of") & (table.layer == 2)
    rare = of_ & (table.context != 0)
    table = table[~rare | (table.groupby("context").cumcount() % 10 == 0)]
    contexts = [100 * (part.upper < 0.5).mean() for _, part in _used(table, "of").groupby("context")]
    token = pretrained.tokens_below(worlds.token_ceilings(table)).set_index("token").loc["of"]
    assert token.percent == pytest.approx(np.mean(contexts))
    assert token.low < token.percent < token.high


def _used(table, token):
    return table[
        (table.token == token) & (table.layer == 2) & (table.queries == NORM) & (table.normalised == AS_USED)
    ]
