import numpy as np
import pandas as pd

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.statements import score_scale


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
    found = list(score_scale.random_heads([2, 3], seeds=[6, 8]))
    places = [(mean, d, seed) for mean in (0, 1) for d in (2, 3) for seed in (6, 8)]
    for (mean, d, seed), one in zip(places, found, strict=True):
        draws = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 128, d)) + mean
        np.testing.assert_array_equal([one.queries, one.keys], draws)
        source = ("normal", "normal_mean_1")[mean]
        assert one.columns == {"source": source, "variant": None, "seed": seed, "layer": 1, "head": 0}


def test_majority_heads_are_those_of_trained_models_with_undivided_queries():
    """Of the runs that are named, and of no other width, rate, variant, seed or experiment."""
    keys = np.eye(4)[:3]
    run = {"experiment": "d8", "variant": "layernorm", "seed": 1000, "d_model": 4, "base_learning_rate": 1e-3}
    rows = [
        run | {"checkpoint": checkpoint, "token": token, "kind": kind, "vector": vector}
        for checkpoint, query in (("initial", 7.0), ("final", 0.5))
        for kind, vectors in (("key", keys), ("query", np.full((3, 4), query)))
        for token, vector in enumerate(vectors)
    ]
    others = [
        {"d_model": 3},
        {"base_learning_rate": 1e-2},
        {"variant": "scale"},
        {"seed": 7},
        {"experiment": "d3"},
    ]
    rows += [row | other | {"vector": 9 * row["vector"]} for other in others for row in rows]
    wanted = [run, run | {"seed": 1001}]  # the second diverged, and has no rows
    (found,) = score_scale.majority_heads(pd.DataFrame(rows[::-1]), wanted)  # tokens in the opposite order
    assert np.allclose(found.queries, 1)  # those of the trained model, times sqrt(4)
    assert np.array_equal(found.keys, keys)
    assert (found.columns["source"], found.columns["variant"]) == ("majority", "layernorm")
    assert found.columns["seed"] == 1000
