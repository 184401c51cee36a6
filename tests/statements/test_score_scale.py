from itertools import product

import numpy as np
import pytest
from default_settings import example

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import ScoreScale
from layernorm_roles.statements import score_scale


def test_the_table_has_plain_formulas_of_the_draws_of_each_seed_query_by_query():
    found = score_scale.measure(example(ScoreScale, d_k=[2, 3]), [6, 8])
    places = product(("normal", "normal_mean_1"), (2, 3), (6, 8), (False, True))
    for row, (source, d, seed, divided) in zip(found.itertuples(), places, strict=True):
        assert (row.source, row.d_k, row.seed, row.divided) == (source, d, seed, divided)
        queries, keys = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 128, d)) + (
            source[-1] == "1"
        )
        scores = np.array([keys @ q for q in queries]) / d ** (0.5 * divided)
        weights = [np.exp(s) / np.exp(s).sum() for s in scores]
        entropy = np.mean([-(p * np.log(p)).sum() for p in weights])
        gradient = np.mean([(p * (1 - p)).sum() for p in weights])
        known = scores.mean(), scores.std(), entropy / np.log(128), gradient
        numbers = row.score_mean, row.score_std, row.entropy_share, row.gradient
        assert numbers == pytest.approx(known, rel=1e-9)
