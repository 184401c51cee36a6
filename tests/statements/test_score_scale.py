import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale
from layernorm_roles.statements import score_scale

SETTINGS = example(ScoreScale, d_k=[4, 64, 256], keys=200, contexts=1)


@pytest.fixture(scope="module")
def table():
    return score_scale.measure(score_scale.random_heads(SETTINGS, seeds=[0, 1]))


def test_score_deviation_is_sqrt_d_k_for_unit_normals(table):
    normal = table[table.source == "normal"]
    expected = np.where(normal.divided, 1.0, np.sqrt(normal.d_k))
    assert np.allclose(normal.score_std, expected, rtol=0.1)


def test_components_of_mean_1_have_mean_score_d_k_and_deviation_sqrt_3_d_k(table):
    ones = table[(table.source == "normal_mean_1") & ~table.divided]
    assert np.allclose(ones.score_mean, ones.d_k, rtol=0.15)
    assert np.allclose(ones.score_std, np.sqrt(3 * ones.d_k), rtol=0.15)


def head(queries, keys, causal=False):
    columns = {"source": "x", "variant": None, "seed": 0, "layer": 1, "head": 0}
    return score_scale.QueriesAndKeys(np.asarray(queries, float), np.asarray(keys, float), columns, causal)


@pytest.mark.parametrize(("queries", "causal", "seen"), [(3, False, [5]), (5, True, [2, 3, 4, 5])])
def test_equal_keys_give_the_largest_entropy_and_gradient_among_those_that_a_query_sees(
    queries, causal, seen
):
    found = score_scale.statistics(head(np.ones((queries, 2)), np.ones((5, 2)), causal), divided=True)
    assert found["entropy"] == pytest.approx(np.log(seen).mean())
    assert found["entropy_share"] == pytest.approx(1)
    assert found["gradient"] == pytest.approx(1 - np.mean([1 / n for n in seen]))
    assert found["score_std"] == pytest.approx(0, abs=1e-12)


def test_gradient_is_the_trace_of_the_softmaxs_jacobian():
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 3)), rng.standard_normal((6, 3))
    scores = torch.tensor((q @ k.T)[0])
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(0), scores)
    found = score_scale.statistics(head(q, k), divided=False)
    assert found["gradient"] == pytest.approx(jacobian.trace().item())


def test_causal_heads_ignore_later_keys():
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, 6, 3))
    moved = k.copy()
    moved[-1] += 100  # the last key is seen by the last query alone
    before, after = (score_scale.statistics(head(q[:-1], x[:-1], True), False) for x in (k, moved))
    assert before == after
    p = torch.softmax(torch.tensor(q @ k.T).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf), dim=1)
    entropy = torch.special.entr(p).sum(dim=1)[1:].mean()
    assert score_scale.statistics(head(q, k, True), False)["entropy"] == pytest.approx(entropy.item())


def test_the_table_has_the_means_over_contexts_of_plain_formulas():
    """Two heads of one model and one of another, in two contexts of different lengths, query by query."""
    rng, heads = np.random.default_rng(2), {}
    for variant, seed, number in ((None, 3, 0), (None, 3, 1), ("none", 4, 1)):
        columns = {"source": "x", "variant": variant, "seed": seed, "layer": 1, "head": number}
        heads[seed, number] = [
            score_scale.QueriesAndKeys(*rng.standard_normal((2, n, 3)) + 0.4, columns, number == 1)
            for n in (4, 7)
        ]
    found = score_scale.measure([head for contexts in heads.values() for head in contexts])
    assert len(found) == 3 * 2 and set(found.n_keys) == {5.5} and set(found.d_k) == {3}
    assert list(found.variant.fillna("-")) == ["-"] * 4 + ["none"] * 2
    for row in found.itertuples():
        known = []
        for one in heads[row.seed, row.head]:
            counts = range(2, len(one.keys) + 1) if one.causal else [len(one.keys)] * len(one.keys)
            queries = one.queries[-len(counts) :] / 3 ** (0.5 * row.divided)
            scores = [one.keys[:seen] @ q for seen, q in zip(counts, queries, strict=True)]
            weights = [np.exp(s) / np.exp(s).sum() for s in scores]
            entropies = [-(p * np.log(p)).sum() for p in weights]
            gradient = np.mean([(p * (1 - p)).sum() for p in weights])
            shares = entropies / np.log(counts)
            every = np.concatenate(scores)
            known.append([every.mean(), every.std(), np.mean(entropies), shares.mean(), gradient])
        numbers = [row.score_mean, row.score_std, row.entropy, row.entropy_share, row.gradient]
        np.testing.assert_allclose(numbers, np.mean(known, axis=0), rtol=1e-9)


def test_random_heads_are_the_draws_of_their_seed():
    settings = example(ScoreScale, d_k=[2, 3], keys=5, contexts=1)
    found = list(score_scale.random_heads(settings, seeds=[6, 8]))
    places = [(mean, d, seed) for mean in (0, 1) for d in (2, 3) for seed in (6, 8)]
    for (mean, d, seed), one in zip(places, found, strict=True):
        draws = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 5, d)) + mean
        np.testing.assert_array_equal([one.queries, one.keys], draws)
        source = ("normal", "normal_mean_1")[mean]
        assert one.columns == {"source": source, "variant": None, "seed": seed, "layer": 1, "head": 0}


def test_majority_heads_are_those_of_trained_models_with_undivided_queries():
    """Of the largest width and the smallest rate of their experiment."""
    keys = np.eye(4)[:3]
    run = {"experiment": "d8", "variant": "layernorm", "seed": 1000, "d_model": 4, "base_learning_rate": 1e-3}
    rows = [
        run | {"checkpoint": checkpoint, "token": token, "kind": kind, "vector": vector}
        for checkpoint, query in (("initial", 7.0), ("final", 0.5))
        for kind, vectors in (("key", keys), ("query", np.full((3, 4), query)))
        for token, vector in enumerate(vectors)
    ]
    others = [{"d_model": 3}, {"base_learning_rate": 1e-2}, {"base_learning_rate": 1e-4, "experiment": "d3"}]
    rows += [row | other | {"vector": 9 * row["vector"]} for other in others for row in rows]
    (found,) = score_scale.majority_heads(pd.DataFrame(rows[::-1]), "d8")  # tokens in the opposite order
    assert np.allclose(found.queries, 1)  # those of the trained model, times sqrt(4)
    assert np.array_equal(found.keys, keys)
    assert (found.columns["source"], found.columns["variant"]) == ("majority", "layernorm")
    assert found.columns["seed"] == 1000
