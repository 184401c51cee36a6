"""The files of the smaller statements, from the draws of their seeds, once more by plain formulas in numpy."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
from default_settings import example
from planned import planned

from layernorm_roles import store
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence, ScoreScale
from layernorm_roles.statements import batch_dependence, fusion, score_scale


def written(folder, drawn, module, settings, stream, seeds):
    """The table in the file that a statement's job writes, which names its plan and the stream that it drew from."""
    drawn.clear()
    name, plan = stream.name.lower(), planned(folder, "job", settings=settings.model_dump(), seeds=seeds)
    module.write(plan, folder / "rows")
    origin = store.read_provenance(folder / "rows")
    assert drawn == {stream.number: {*seeds}} and origin["seed_rule"] == stream.sentence
    assert json.loads(origin["config"]) == plan
    return store.read(folder / "rows", name)


def test_batch_dependence_has_the_means_over_the_draws(tmp_path, drawn):
    settings, expected = example(BatchDependence, batch_sizes=[1, 3], repeats=2), {}
    found = written(tmp_path, drawn, batch_dependence, settings, Stream.BATCH_DEPENDENCE, [4, 6])
    real = {0.25: 12, 0.5: 8, 0.75: 4}  # tokens of a sequence of 16 before its padding
    for seed, batch, (norm, axes) in product((4, 6), (1, 3), {"layernorm": 2, "batchnorm": (0, 1)}.items()):
        rng = generator(Stream.BATCH_DEPENDENCE, seed, batch)
        for _ in range(2):
            first, second = rng.standard_normal((2, batch, 16, 64))

            def normed(x, axes=axes):
                mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
                return ((x - mean) / np.sqrt(variance + 1e-5))[0, 0]

            changed = {("padding", share): np.copy(first) for share in real}
            for (_, share), x in changed.items():
                x[:, real[share] :] = 0
            moves = {key: normed(first[:, : real[key[1]]]) - normed(x) for key, x in changed.items()}
            moves |= {("others", 0.0): normed(first) - normed(np.concatenate([first[:1], second[1:]]))}
            for (effect, share), move in moves.items():
                if (effect, batch) != ("others", 1):
                    draws = expected.setdefault((norm, effect, batch, share, seed), [])
                    draws.append(np.sqrt(np.mean(move**2)))
    found = found.set_index(["norm", "effect", "batch_size", "padding", "seed"]).change
    assert (found["layernorm"] == 0).all(), "independent of the batch, to the last bit"
    known = pd.Series({key: np.mean(draws) for key, draws in expected.items()})
    assert found.to_dict() == pytest.approx(known.to_dict(), abs=1e-12)


def test_score_scale_is_computed_query_by_query(tmp_path, drawn):
    found = written(tmp_path, drawn, score_scale, example(ScoreScale, d_k=[2, 3]), Stream.SCORE_SCALE, [6, 8])
    places = product(("normal", "normal_mean_1"), (2, 3), (6, 8), (False, True))
    for row, (source, d, seed, divided) in zip(found.itertuples(), places, strict=True):
        assert (row.source, row.d_k, row.seed, row.divided) == (source, d, seed, divided)
        drawn = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 128, d))
        queries, keys = drawn + (source == "normal_mean_1")
        scores = np.array([keys @ q for q in queries]) / d ** (0.5 * divided)
        weights = [np.exp(s) / np.exp(s).sum() for s in scores]
        entropy = np.mean([-(p * np.log(p)).sum() for p in weights])
        gradient = np.mean([(p * (1 - p)).sum() for p in weights])
        known = scores.mean(), scores.std(), entropy / np.log(128), gradient
        numbers = row.score_mean, row.score_std, row.entropy_share, row.gradient
        assert numbers == pytest.approx(known, rel=1e-9)


def test_random_blocks_of_fusion_are_the_draws_of_their_seed_with_weights_of_variance_1_over_inputs():
    found = list(fusion.random_blocks([4, 6], seeds=[3, 5]))
    for (d, seed), made in zip(product((4, 6), (3, 5)), found, strict=True):
        rng, n = generator(Stream.FUSION, seed, d), 2 * 16 * d  # half of the tokens is fitted
        assert made.columns == {"source": "random", "seed": seed, "layer": 1}
        known = [rng.standard_normal((n, d)), rng.standard_normal((n, d))]
        known += [rng.standard_normal((d, d)) / d**0.5, np.zeros(d), np.ones(d), np.zeros(d)]
        known.append(rng.standard_normal((d, 4 * d)) / d**0.5)
        for ours, theirs in zip(made, known, strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=1e-15)


def test_the_table_of_a_block_of_fusion():
    """Gains, biases and b_O are not trivial, and 61 tokens have no half."""
    rng, n, d, d_ff = np.random.default_rng(5), 61, 5, 9
    stream, heads = rng.standard_normal((n, d)) + 1, rng.standard_normal((n, d)) - 2
    w_o, w_1 = rng.standard_normal((d, d)), rng.standard_normal((d, d_ff))
    b_o, gain, bias = rng.standard_normal((3, d))
    columns = {"source": "x", "seed": 6, "layer": 2}
    block = fusion.AttentionBlock(stream, heads, w_o, b_o, gain, bias, w_1, columns)
    found = fusion.measure([block])
    assert found.arrangement.tolist() == ["plain", "residual", "norm", "residual_norm"]
    for row in found.itertuples():
        y = heads @ w_o + b_o + stream * row.arrangement.startswith("residual")
        if row.arrangement.endswith("norm"):
            y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True) * gain + bias
        out = y @ w_1
        np.testing.assert_allclose(fusion.before_nonlinearity(block, row.arrangement), out, atol=1e-12)
        x = np.hstack([heads, np.ones((n, 1))])
        rest, left = out[30:] - x[30:] @ np.linalg.pinv(x[:30]) @ out[:30], out[30:] - out[30:].mean(axis=0)
        assert row.error == pytest.approx((rest**2).sum() / (left**2).sum(), abs=1e-12)
        assert (row.d, row.source, row.seed, row.layer) == (d, "x", 6, 2)
