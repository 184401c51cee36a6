"""The probe for positions, on networks whose streams are known to have them or not."""

import numpy as np
import pytest
import torch

from layernorm_roles.statements import position
from layernorm_roles.statements.transformer import TransformerShape, initial

TOKENS = np.random.default_rng(0).integers(0, 20, size=4000)
SHAPE = TransformerShape("pre", depth=3, d_model=64, heads=2, context_length=10, vocabulary=20)


def test_windows_are_judged_on_another_part_of_the_text():
    fitted, judged = position.probe_windows(np.arange(4000), 10, seed=1)
    assert fitted.max() < 2010 and judged.min() >= 2000
    assert fitted.shape == judged.shape == (position.WINDOWS, 11)


def test_the_probe_is_judged_on_windows_that_it_was_not_fitted_to():
    """Where it is fitted the token is the position; where it is judged the tokens come in the opposite order."""
    matrices = SHAPE.matrices(initial(SHAPE, [3]))
    matrices[[name for name, _ in SHAPE.parameters()].index("position")][0] = 0
    fitted, judged = torch.arange(11).expand(40, 11), torch.tensor([*range(9, -1, -1), 0]).expand(40, 11)
    assert position.position_accuracy(SHAPE, matrices, torch.stack([fitted, fitted]))[0, 0] == 1
    assert position.position_accuracy(SHAPE, matrices, torch.stack([fitted, judged]))[0, 0] == 0


def test_a_diverged_run_has_no_accuracy():
    matrices = SHAPE.matrices(initial(SHAPE, [3, 4]))
    matrices[0][1] = torch.inf
    found = position.position_accuracy(SHAPE, matrices, position.probe_windows(TOKENS, 10, seed=1))
    assert np.isnan(found[1]).all() and found[0, 0] == pytest.approx(1, abs=0.05)
