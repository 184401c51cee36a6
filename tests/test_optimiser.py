"""AdamW against torch's class, and the learning rates of its steps."""

import pytest
import torch

from layernorm_roles.optimiser import AdamW, linear_decay, rate_taken


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_steps_and_state_are_those_of_torchs_adamw(decay, dtype):
    """To the bit, also where a parameter gets its first gradient late, or cannot count the steps itself."""
    values = [torch.randn(shape, dtype=dtype) for shape in ((3, 5), (1,), (64, 33))]
    ours, theirs = ([torch.nn.Parameter(value.clone()) for value in values] for _ in range(2))
    optimiser, reference = AdamW(ours, 0.0, decay), torch.optim.AdamW(theirs, weight_decay=decay, fused=True)
    for step in range(300):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            gradient = torch.randn_like(pair[0]) ** 3
            for parameter in pair:
                parameter.grad = gradient.clone() if number != 1 or step > 10 else None
        optimiser.lr = 0.1 / (1 + step)
        reference.param_groups[0]["lr"] = 0.1 / (1 + step)
        optimiser.step()
        reference.step()
        assert all(map(torch.equal, ours, theirs))
    states = reference.state_dict()["state"]
    for known, found in ((states[number], found) for number, found in enumerate(optimiser.state)):
        assert {name: value.dtype for name, value in found.items()} == {n: v.dtype for n, v in known.items()}
        assert all(torch.equal(found[name], value) for name, value in known.items())


@pytest.mark.parametrize("factor", [35.0, 1 / 35, 1.0])
def test_the_first_rows_have_a_rate_of_their_own(factor):
    """As if they were a parameter in a group of its own, to the bit; and what a factor of 1 gives is as without."""
    values = torch.randn(6, 5), torch.randn(7)
    whole, other = map(torch.nn.Parameter, (values[0].clone(), values[1].clone()))
    first, rest, same = (torch.nn.Parameter(v.clone()) for v in (values[0][:4], values[0][4:], values[1]))
    ours = AdamW([whole, other], 0.0, 0.1, 1e-6, {whole: (4, factor)})
    groups = [{"params": [rest, same]}, {"params": [first]}]
    theirs = torch.optim.AdamW(groups, weight_decay=0.1, eps=1e-6, fused=True)
    for step in range(50):
        whole.grad, other.grad = torch.randn(6, 5), torch.randn(7)
        first.grad, rest.grad, same.grad = whole.grad[:4].clone(), whole.grad[4:].clone(), other.grad.clone()
        ours.lr = theirs.param_groups[0]["lr"] = 0.1 / (1 + step)
        theirs.param_groups[1]["lr"] = factor * ours.lr
        ours.step()
        theirs.step()
        assert torch.equal(whole, torch.cat([first, rest])) and torch.equal(other, same)
    assert [state["step"].item() for state in ours.state] == [50, 50]


@pytest.mark.parametrize(("warmup", "rates"), [(0, [8, 6, 4, 2, 0, 0]), (2, [4, 6, 4, 2, 0, 0])])
def test_the_rate_falls_to_0_and_the_one_taken_is_that_of_the_step_before(warmup, rates):
    assert [linear_decay(8.0, step, 4, warmup) for step in range(6)] == rates
    assert [rate_taken(8.0, step, 4, warmup) for step in range(6)] == [rates[0], *rates[:-1]]
