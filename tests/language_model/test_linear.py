"""Linear layers by oneDNN: torch's numbers and gradients, in every layout that the models use."""

import pytest
import torch
import torch.nn.functional as F

from layernorm_roles.language_model import linear
from layernorm_roles.language_model.linear import Linear

needs_onednn = pytest.mark.skipif(not linear.has_onednn(), reason="a torch without oneDNN")


def numbers_and_gradients(function, inputs, grad):
    inputs = [None if t is None else t.detach().clone().requires_grad_() for t in inputs]
    out = function(*inputs)
    return out, *torch.autograd.grad(out, [t for t in inputs if t is not None], grad.to(out.dtype))


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(70, 64), (3, 17, 64), (1, 1, 64)])
def test_numbers_and_gradients_are_those_of_float64(shape, bias):
    generator = torch.Generator().manual_seed(0)
    draw = lambda *size: torch.randn(size, generator=generator)  # noqa: E731
    inputs = draw(*shape), draw(48, 64), draw(48) if bias else None
    grad = draw(*shape[:-1], 48)
    found = numbers_and_gradients(linear.linear, inputs, grad)
    exact = numbers_and_gradients(F.linear, [None if t is None else t.double() for t in inputs], grad)
    for ours, right in zip(found, exact, strict=True):
        assert ours.dtype == torch.float32 and ours.shape == right.shape
        torch.testing.assert_close(ours.double(), right, rtol=1e-5, atol=1e-4)


@needs_onednn
def test_views_of_other_tensors_are_read_where_they_lie():
    """Heads are transposed, weights split: neither is contiguous."""
    x, weight = torch.randn(5, 64, 9).transpose(1, 2), torch.randn(64, 100).T[20:60]
    torch.testing.assert_close(linear.linear(x, weight), F.linear(x, weight), rtol=1e-5, atol=1e-4)


@needs_onednn
@pytest.mark.parametrize(
    ("size", "dtype", "by_onednn"), [(32, "float32", True), (31, "float32", False), (64, "float64", False)]
)
def test_onednn_multiplies_where_it_is_faster_alone(size, dtype, by_onednn, monkeypatch):
    asked = []
    monkeypatch.setattr(
        linear, "_product", lambda x, weight, bias: asked.append(size) or F.linear(x, weight, bias)
    )
    layer = Linear(64, size).to(getattr(torch, dtype))
    assert layer(torch.ones(2, 64, dtype=layer.weight.dtype)).shape == (2, size)
    assert asked == [size] * by_onednn


def test_without_onednn_torch_multiplies(monkeypatch):
    monkeypatch.setattr(linear, "has_onednn", lambda: False)
    layer = Linear(64, 64)
    x = torch.randn(3, 64)
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
