from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence
from layernorm_roles.statements import batch_dependence

SIZES = {"d_model": 8, "tokens": 4, "batch_sizes": [1, 2, 64], "updates": 20, "repeats": 20}
SETTINGS = example(BatchDependence, **SIZES, padding=[0.5, 0.25])


@pytest.fixture(scope="module")
def table():
    return batch_dependence.measure(SETTINGS, seeds=[0, 1])


def test_layernorm_is_exactly_independent_of_the_batch(table):
    assert (table[table.norm == "layernorm"].change == 0).all()


def test_a_sequence_alone_has_no_others(table):
    assert not ((table.effect == "others") & (table.batch_size == 1)).any()


def test_batchnorms_dependence_falls_as_one_over_the_root_of_the_tokens(table):
    """Mean and deviation are estimated from N Gaussian values; between two batches that share a few of them the
    output x moves by sqrt((2 + x^2) / N), root mean square sqrt(3 / N), to first order and N large."""
    change = table[
        (table.norm == "batchnorm") & (table.effect == "others") & (table.batch_size == 64)
    ].change.mean()
    n = 64 * SETTINGS.tokens
    assert change == pytest.approx(np.sqrt(3 / n), rel=0.1)


def test_padding_moves_batchnorm_by_the_lost_variance(table):
    """Half of the values 0: the variance halves, x grows by sqrt(2); with a quarter of them, by sqrt(4/3)."""
    part = table[(table.norm == "batchnorm") & (table.effect == "padding") & (table.batch_size == 64)]
    change = part.groupby("padding").change.mean().to_dict()  # to first order in large batches
    assert change == pytest.approx({0.5: 2**0.5 - 1, 0.25: (4 / 3) ** 0.5 - 1}, rel=0.1)


@pytest.mark.parametrize("updates", [1, 100])
def test_evaluation_uses_the_statistics_of_earlier_batches_and_of_no_others(updates):
    """Earlier batches have mean 5 and deviation 2, the first one 3 and 1: x becomes x - 3 in training.

    The running mean and variance start at 0 and 1, of which each earlier batch leaves nine tenths, torch's default.
    """
    rng = np.random.default_rng(0)
    earlier = [torch.from_numpy(5 + 2 * rng.standard_normal((50, 40, 3))) for _ in range(updates)]
    first, second = (torch.from_numpy(3 + rng.standard_normal((500, 40, 3))) for _ in range(2))
    x, start = first[0, 0], 0.9**updates
    moved = batch_dependence.rms(x - 3 - (x - 5 * (1 - start)) / (start + 4 * (1 - start)) ** 0.5)
    expected = {"batchnorm": pytest.approx(moved, rel=0.02), "layernorm": 0}
    for name in batch_dependence.NORMS:
        effects = batch_dependence._effects(name, first, second, earlier, (0.5,))
        changes = {effect: change for effect, _, change in effects}
        assert changes["mode"] == expected[name]


def test_the_table_has_the_means_over_the_draws_of_plain_formulas():
    """Every row once more in numpy, from the draws of its seed and batch size."""
    sizes = {
        "d_model": 3,
        "tokens": 5,
        "batch_sizes": [1, 3],
        "updates": 2,
        "repeats": 2,
        "padding": [0.4, 0.2],
    }
    settings, expected = example(BatchDependence, **sizes), {}
    for seed, batch, (norm, axes) in product((4, 6), (1, 3), {"layernorm": 2, "batchnorm": (0, 1)}.items()):
        rng = generator(Stream.BATCH_DEPENDENCE, seed, batch)
        for _ in range(2):
            first, second, *earlier = rng.standard_normal((2 + 2, batch, 5, 3))

            def out(x, mean, variance):
                return ((x - mean) / np.sqrt(variance + 1e-5))[0, 0]

            def normed(x, axes=axes):
                return out(x, x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True))

            changed = {("padding", share): np.copy(first) for share in (0.4, 0.2)}
            for (_, share), x in changed.items():
                x[:, {0.4: 3, 0.2: 4}[share] :] = 0
            moves = {key: normed(first[:, : 5 - round(5 * key[1])]) - normed(x) for key, x in changed.items()}
            moves |= {("others", 0.0): normed(first) - normed(np.concatenate([first[:1], second[1:]]))}
            mean, variance = np.zeros(3), np.ones(3)
            for x in earlier:
                mean = 0.9 * mean + 0.1 * x.mean(axis=(0, 1))
                variance = 0.9 * variance + 0.1 * x.var(axis=(0, 1)) * (5 * batch) / (5 * batch - 1)
            moves["mode", 0.0] = (norm == "batchnorm") * (normed(first) - out(first, mean, variance))
            for (effect, share), move in moves.items():
                if (effect, batch) != ("others", 1):
                    draws = expected.setdefault((norm, effect, batch, share, seed), [])
                    draws.append(np.sqrt(np.mean(move**2)))
    found = batch_dependence.measure(settings, [4, 6])
    found = found.set_index(["norm", "effect", "batch_size", "padding", "seed"]).change
    known = pd.Series({key: np.mean(draws) for key, draws in expected.items()})
    assert found.to_dict() == pytest.approx(known.to_dict(), abs=1e-12)
