"""Adam on one vector of parameters against torch's class, and the schedule of the learning rate."""

import pytest
import torch

from layernorm_roles.optimiser import FlatAdam, linear_decay, set_learning_rate


def test_flat_adam_takes_the_steps_of_torchs_adam():
    parts = [torch.randn(shape, dtype=torch.float64) for shape in ((3, 5), (1,), (7, 2))]
    theirs = [torch.nn.Parameter(part.clone()) for part in parts]
    flat = torch.nn.Parameter(torch.nn.utils.parameters_to_vector(parts))
    flat.grad = torch.zeros_like(flat)
    ours, optimiser = FlatAdam(flat, 0.0), torch.optim.Adam(theirs)
    for step in range(30):
        optimiser.param_groups[0]["lr"] = learning_rate = 0.1 / (1 + step)
        for parameter in theirs:
            parameter.grad = torch.randn_like(parameter) ** 3
        flat.grad.copy_(torch.cat([parameter.grad.flatten() for parameter in theirs]))
        optimiser.step()
        set_learning_rate(ours, learning_rate)
        ours.step()
        expected = torch.nn.utils.parameters_to_vector(theirs)
        torch.testing.assert_close(flat, expected, rtol=1e-13, atol=1e-13)


def test_the_learning_rate_falls_linearly_to_zero_and_stays_there():
    assert linear_decay(0.4, 0, 8) == 0.4
    assert linear_decay(0.4, 6, 8) == pytest.approx(0.1)
    assert linear_decay(0.4, 8, 8) == linear_decay(0.4, 9, 8) == 0
