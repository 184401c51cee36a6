from itertools import product

import numpy as np
import pandas as pd
import pytest
from default_settings import example

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence
from layernorm_roles.statements import batch_dependence


def test_the_table_has_the_means_over_the_draws_of_plain_formulas():
    """Every row once more in numpy, from the draws of its seed and batch size."""
    settings, expected = example(BatchDependence, batch_sizes=[1, 3], repeats=2), {}
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
    found = batch_dependence.measure(settings, [4, 6])
    found = found.set_index(["norm", "effect", "batch_size", "padding", "seed"]).change
    assert (found["layernorm"] == 0).all(), "independent of the batch, to the last bit"
    known = pd.Series({key: np.mean(draws) for key, draws in expected.items()})
    assert found.to_dict() == pytest.approx(known.to_dict(), abs=1e-12)
