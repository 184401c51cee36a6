"""Linear layers and feed-forward parts by compiled kernels: torch's numbers and gradients in float64."""

import pytest
import torch
import torch.nn.functional as F

from layernorm_roles.language_model import linear, parallel
from layernorm_roles.language_model.linear import FeedForward, Linear

MANY = 2 * parallel.TOKENS + 77


def drawn(*sizes):
    """Matrices of standard normal numbers in float32, a size each."""
    generator = torch.Generator().manual_seed(0)
    return [None if size is None else torch.randn(size, generator=generator) for size in sizes]


def numbers_and_gradients(function, inputs, grad):
    """What `function` makes of its inputs, and its gradients with respect to those that are there."""
    inputs = [None if t is None else t.detach().clone().requires_grad_() for t in inputs]
    out = function(*inputs)
    return out.detach(), *torch.autograd.grad(out, [t for t in inputs if t is not None], grad.to(out.dtype))


def assert_those_of_float64(function, reference, inputs, grad):
    exact = numbers_and_gradients(reference, [None if t is None else t.double() for t in inputs], grad)
    for ours, right in zip(numbers_and_gradients(function, inputs, grad), exact, strict=True):
        assert ours.dtype == torch.float32 and ours.shape == right.shape
        torch.testing.assert_close(
            ours.double(), right, rtol=0, atol=3e-6 * max(1.0, float(right.abs().max()))
        )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(70, 64), (3, 17, 64), (1, 1, 64), (MANY, 64)])
def test_linear_layers(shape, bias):
    *inputs, grad = drawn(shape, (48, 64), 48 if bias else None, (*shape[:-1], 48))
    assert_those_of_float64(linear.linear, F.linear, inputs, grad)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(
    ("shape", "d_ff"), [((70, 64), 256), ((2, 33, 8), 32), ((1, 1), 1), ((9, 21), 50), ((MANY, 8), 33)]
)
def test_feed_forward_parts(shape, d_ff, approximate):
    d = shape[-1]
    x, grad, *weights = drawn(shape, shape, (d_ff, d), d_ff, (d, d_ff), d)
    part = FeedForward(d, d_ff, approximate)
    names = [name for name, _ in part.named_parameters()]

    def ours(x, *weights):
        return torch.func.functional_call(part, dict(zip(names, weights, strict=True)), (x,))

    def reference(x, w_in, b_in, w_out, b_out):
        return F.linear(F.gelu(F.linear(x, w_in, b_in), approximate=approximate), w_out, b_out)

    assert_those_of_float64(ours, reference, [x, *weights], grad)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_far_from_zero_and_close_to_it(approximate):
    """One hidden unit that is x, and a weight of 1 after it: the part is GELU itself."""
    part = FeedForward(1, 1, approximate)
    with torch.no_grad():
        for parameter, value in zip(part.parameters(), (1.0, 0.0, 1.0, 0.0), strict=True):
            parameter.fill_(value)
    x = torch.cat([torch.linspace(-9, 9, 3001), torch.tensor([0.0, 1e-20, -1e-20, -40.0, 40.0])])[:, None]
    found = numbers_and_gradients(part, [x], torch.ones_like(x))
    exact = numbers_and_gradients(
        lambda x: F.gelu(x, approximate=approximate), [x.double()], torch.ones_like(x)
    )
    for ours, right in zip(found, exact, strict=True):
        torch.testing.assert_close(ours.double(), right, rtol=1e-6, atol=6e-7)
    assert part(torch.tensor([[torch.nan]])).isnan()


def test_views_of_other_tensors_are_read_where_they_lie():
    """Heads are transposed, weights split: neither is contiguous."""
    x, weight = torch.randn(5, 64, 9).transpose(1, 2), torch.randn(64, 112).T[20:68]
    torch.testing.assert_close(linear.linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("size", "dtype", "by_kernel"), [(32, "float32", True), (31, "float32", False), (64, "float64", False)]
)
def test_what_the_kernel_does_not_take_goes_to_torch(size, dtype, by_kernel, monkeypatch):
    asked = []
    monkeypatch.setattr(
        linear._Linear, "apply", lambda *arguments: asked.append(size) or F.linear(*arguments)
    )
    layer = Linear(64, size).to(getattr(torch, dtype))
    assert layer(torch.ones(2, 64, dtype=layer.weight.dtype)).shape == (2, size)
    assert asked == [size] * by_kernel
