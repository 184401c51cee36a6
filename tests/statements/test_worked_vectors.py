"""Numbers that lecture notes on the transformer work out by hand, as vectors to test with."""

import numpy as np
import pytest
import torch

from layernorm_roles.norms import build, project
from layernorm_roles.statements.score_scale import statistics

NORMALISED = """
1.5 2.0 -0.5 | 0.5 1.0 -1.5    | 0.46 0.93 -1.39
1.0 2.0 -1.0 | 0.33 1.33 -1.67 | 0.27 1.07 -1.33
3.0 1.0 0.5  | 1.5 -0.5 -1.0   | 1.39 -0.46 -0.93
2.0 -1.0 1.5 | 1.17 -1.83 0.67 | 0.89 -1.39 0.51
1.0 3.0 2.0  | -1.0 1.0 0.0    | -1.22 1.22 0.0
2.0 1.0 -1.0 | 1.33 0.33 -1.67 | 1.06 0.27 -1.33
"""
"""A vector, its deviations from the mean, and its entries after LayerNorm, some cut off instead of rounded."""


@pytest.mark.parametrize("line", NORMALISED.strip().splitlines())
def test_vectors_are_projected_and_normalised_as_the_notes_say(line):
    x, deviations, normalised = (
        torch.tensor([float(number) for number in part.split()]).double() for part in line.split("|")
    )
    assert (project(x) - deviations).abs().max() < 0.01
    assert (build("layernorm", 3)(x) - normalised).abs().max() < 0.01


def test_the_notes_six_scores_have_the_entropy_and_gradient_of_their_softmax():
    """The query of "cat" in "The cat sat on the mat"; the weights in the notes, 0.217 and 0.132, do not sum to 1."""
    keys = np.array([[1, 0, 0], [1, 0.5, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    found = statistics(np.array([[1.0, 0.0, 1.0]]), keys, divided=False)
    weights = np.exp([1, 1, 1, 0.5, 1, 0.5]) / (4 * np.e + 2 * np.e**0.5)
    assert found["score_mean"] == pytest.approx(5 / 6)
    assert found["entropy_share"] == pytest.approx(-(weights * np.log(weights)).sum() / np.log(6))
    assert found["gradient"] == pytest.approx(1 - (weights**2).sum())
