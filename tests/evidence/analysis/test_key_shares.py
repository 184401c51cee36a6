"""Shares of unselectable keys, tokens and sentences of language models that are built by hand."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from layernorm_roles.evidence.analysis import language_model, random_keys
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.schemas import SCHEMAS

SHARES = np.array([[0.1, 0.2, 0.6], [0.3, 0.4, 0.8]])


def test_interval_over_seeds_and_contexts_adds_both_in_quadrature():
    low, high = language_model.contexts_and_seeds_interval(SHARES)
    seeds = stats.t.ppf(0.975, 1) * np.std([0.3, 0.5], ddof=1) / 2**0.5
    contexts = stats.t.ppf(0.975, 2) * np.std([0.2, 0.3, 0.7], ddof=1) / 3**0.5
    assert (low + high) / 2 == pytest.approx(0.4)
    assert (high - low) / 2 == pytest.approx(np.sqrt(seeds**2 + contexts**2))


def test_interval_of_one_seed_is_over_contexts_and_of_one_context_over_seeds():
    half = np.diff(language_model.contexts_and_seeds_interval(SHARES[:1])).item() / 2
    assert half == pytest.approx(stats.t.ppf(0.975, 2) * np.std(SHARES[0], ddof=1) / 3**0.5)
    half = np.diff(language_model.contexts_and_seeds_interval(SHARES[:, :1])).item() / 2
    assert half == pytest.approx(stats.t.ppf(0.975, 1) * np.std(SHARES[:, 0], ddof=1) / 2**0.5)
    assert language_model.contexts_and_seeds_interval(SHARES[:1, :1]) == (0.1, 0.1)


def key_table() -> pd.DataFrame:
    """Two variants, seeds, layers, contexts (of different length) and three heads, no two counts in line."""
    rows = []
    for v, seed, layer, context, head in product(range(2), range(2), (1, 2), range(2), (None, 0, 1, 2)):
        keys = 1000 + 1000 * context
        hit = 1 + 100 * v + 10 * seed + 40 * layer + 4 * context + (0 if head is None else 200 + 30 * head**2)
        variant, site = ("layernorm", "projection")[v], "after_norm" if head is None else "head"
        key = ("gpt", variant, seed, "final", "long", context, layer, site, head, False)
        rows.append((*key, keys, 8, hit, context))
    frame = pd.DataFrame(rows, columns=SCHEMAS["key_selectability"].names[:-2])
    other = frame.assign(model="bert", n_unselectable=0)
    causal = frame.assign(causal=True, n_unselectable=0)
    return pd.concat([frame, other, causal], ignore_index=True)


def test_shares_are_means_over_contexts_seeds_and_heads():
    table = language_model.unselectable_shares(key_table(), model="gpt", texts="long")
    assert len(table) == 2 * 2 * 2 and (table.seeds == 2).all() and (table.contexts == 2).all()
    table = table.set_index(["variant", "site", "layer"])
    for v, variant in enumerate(("layernorm", "projection")):
        for layer in (1, 2):
            base = [1 + 100 * v + 10 * seed + 40 * layer for seed in range(2)]
            cells = np.array([[count / 1000, (count + 4) / 2000] for count in base])
            row = table.loc[variant, "after_norm", layer]
            assert row.percent == pytest.approx(100 * cells.mean())
            assert (row.low, row.high) == pytest.approx(
                language_model.contexts_and_seeds_interval(100 * cells)
            )
            cells += (200 + 30 * np.mean([0, 1, 4])) * np.array([1 / 1000, 1 / 2000])
            assert table.loc[variant, "head", layer].percent == pytest.approx(100 * cells.mean())
    assert table.borderline_percent.to_numpy() == pytest.approx(100 * 2 / 6000)


TEXTS = ["the cat sat", "the dog", "a cat"]
UNSELECTABLE = {"initial": {"the", "cat", "a"}, "final": {"cat", "sat"}}


def token_table() -> pd.DataFrame:
    """Three sentences; the second seed's keys are all selectable, the second layer's as the first's."""
    rows = []
    for variant, seed, checkpoint, layer in product(
        ("projection", "layernorm"), (3, 5), ("initial", "final"), (1, 2)
    ):
        for context, text in enumerate(TEXTS):
            for position, token in enumerate(text.split()):
                hit = token in UNSELECTABLE[checkpoint] and seed == 3 and variant == "projection"
                verdict = "unselectable" if hit else "selectable"
                rows.append(("gpt", variant, seed, checkpoint, context, layer, position, token, verdict))
    frame = pd.DataFrame(rows, columns=SCHEMAS["sentence_tokens"].names)
    return frame.sample(frac=1, random_state=0)


def test_token_shares():
    table = language_model.token_shares(token_table())
    assert list(table.token) == ["cat", "sat", "the", "a", "dog"]
    table = table.set_index("token")
    assert table.occurrences.to_dict() == {"cat": 8, "sat": 4, "the": 8, "a": 4, "dog": 4}
    assert table.final_percent.to_dict() == {"cat": 50, "sat": 50, "the": 0, "a": 0, "dog": 0}
    assert table.initial_percent.to_dict() == {"cat": 50, "sat": 0, "the": 50, "a": 50, "dog": 0}


def test_marked_sentences_have_the_most_first_and_leave_out_those_without():
    sentences = language_model.marked_sentences(token_table())
    assert sentences == [
        [("the", False), ("cat", True), ("sat", True)],
        [("a", False), ("cat", True)],
    ]
    assert language_model.marked_sentences(token_table(), number=1) == sentences[:1]


def test_z_scores_follow_from_the_cell_alone():
    cells = pd.DataFrame(
        {
            "matrices": [100, 100, 100, 100, 400],
            "mean_unselectable": [2.25, 2.3, 0.05, 1.0, 0.0],
            "expected_unselectable": [2.0, 2.0, 0.05, np.nan, 0.04],
            "std_unselectable": [1.5, 0.0, 0.2, 1.0, 0.0],
        }
    )
    scored = random_keys.z_scores(cells)
    assert scored.z[0] == pytest.approx(0.25 / (2**0.5 / 10))  # a count whose variance is its mean
    assert scored.z[2] == 0
    assert scored.z[4] == pytest.approx(-4)  # 16 keys expected, none seen
    assert scored.z[[1, 3]].isna().all()  # nothing varied; no formula
    assert list(scored.comparable) == [True, True, False, False, True]


@pytest.mark.parametrize("expected,matrices", [(2.0, 100), (0.04, 300)])
def test_z_scores_of_true_expectations_are_standard_normal(expected, matrices):
    """Of rare counts as well, 12 keys in all, none is an outlier because it happened to see few."""
    counts = np.random.default_rng(0).poisson(expected, size=(2000, matrices))
    cells = pd.DataFrame(
        {
            "matrices": matrices,
            "mean_unselectable": counts.mean(axis=1),
            "std_unselectable": counts.std(axis=1, ddof=1),
            "expected_unselectable": expected,
        }
    )
    z = random_keys.z_scores(cells).z
    assert abs(z.mean()) < 0.1 and z.std() == pytest.approx(1, abs=0.05)
    assert z.abs().max() < 4.5


def test_z_scores_of_regular_counts_are_standard_normal():
    """Counts of which each matrix has nearly the same number, as a hull of few keys: far less than Poisson's."""
    counts = np.random.default_rng(0).binomial(10, 0.9, size=(2000, 100))
    cells = pd.DataFrame(
        {
            "matrices": 100,
            "mean_unselectable": counts.mean(axis=1),
            "std_unselectable": counts.std(axis=1, ddof=1),
            "expected_unselectable": 9.0,
        }
    )
    assert random_keys.z_scores(cells).z.std() == pytest.approx(1, abs=0.06)


def test_share_of_matrices_weighs_cells_by_their_matrices():
    cells = pd.DataFrame({"matrices": [10, 90], "any_unselectable": [1.0, 0.1]})
    share = random_keys.share_of_matrices(cells)
    exact = stats.binomtest(19, 100).proportion_ci()
    assert share == pytest.approx((19, 100 * exact.low, 100 * exact.high))


def test_with_undecided_keys_the_share_of_matrices_is_an_upper_bound():
    cells = pd.DataFrame({"matrices": [10, 90], "any_unselectable": [1.0, 0.1], "n_borderline": [0, 5]})
    assert random_keys.share_of_matrices(cells, undecided=True).mean == 24
    assert random_keys.share_of_matrices(cells.assign(n_borderline=100), undecided=True).mean == 100


def test_variants_stand_in_the_order_of_the_legends_and_others_after_them():
    assert legend_order(["zeta", "none", "alpha", "layernorm", "none"]) == [
        "layernorm",
        "none",
        "alpha",
        "zeta",
    ]
