"""Cross-entropy without logits against torch's with them: values, gradients, extremes."""

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from layernorm_roles.language_model import cross_entropy, parallel
from layernorm_roles.language_model.kernels.softmax import SAFE_SHIFT

KERNELS = [cross_entropy.fused, cross_entropy.chunked]


def draw(seed, tokens=37, entries=211, d=8, size=1.0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    hidden = size * torch.randn(tokens, d, generator=g, dtype=torch.float64)
    weight = torch.randn(entries, d, generator=g, dtype=torch.float64)
    return hidden.to(dtype), weight.to(dtype), torch.randint(entries, (tokens,), generator=g)


def reference(hidden, weight, targets):
    hidden, weight = (t.detach().double().requires_grad_() for t in (hidden, weight))
    loss = F.cross_entropy(hidden @ weight.T, targets)
    return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_chunked_equals_torch_in_float64(chunk, monkeypatch):
    monkeypatch.setattr(cross_entropy, "TOKENS_ON_CPU", chunk)
    inputs = draw(0, dtype=torch.float64)
    found = cross_entropy.chunked(*inputs)
    torch.testing.assert_close(found, reference(*inputs), rtol=1e-12, atol=1e-14)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    tokens=st.integers(1, 20),
    entries=st.integers(1, 70) | st.integers(500, 1100),
    d=st.integers(1, 19),
    size=st.sampled_from([1e-3, 0.1, 1.0, 5.0, 30.0]),
)
def test_compiled_kernel_at_any_shape_and_size_in_parts_of_eight_tokens(seed, tokens, entries, d, size):
    """Later tokens have larger logits, so that what bounds those of one part does not bound those of the next."""
    inputs = draw(seed, tokens, entries, d, size)
    inputs[0].mul_(torch.arange(1, tokens + 1)[:, None] / tokens)
    scale = max(1.0, float((inputs[0].double() @ inputs[1].double().T).abs().max()))
    with patch.object(parallel, "TOKENS", 8):
        found = cross_entropy.fused(*inputs)
    for ours, theirs in zip(found, reference(*inputs), strict=True):
        # A logit is wrong by its size times 6e-8, a probability by as much of itself.
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=4e-6 * scale)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_loss_alone_is_the_loss_with_gradients_and_that_of_a_diverged_model_shows(kernel):
    inputs = draw(5, tokens=130)
    (alone, *none), (loss, *_) = kernel(*inputs, gradients=False), kernel(*inputs)
    torch.testing.assert_close(alone, loss, rtol=1e-6, atol=0)
    assert none == [None, None] and (kernel is not cross_entropy.fused or torch.equal(alone, loss))
    for spoilt in (torch.nan, torch.inf, -torch.inf):
        inputs[0][3, 1] = spoilt
        assert kernel(*inputs)[0].isnan()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [1.0, 300.0, 3e4])
def test_no_shift_underflows(kernel, size):
    """Every logit far below |h| max|w|: with that as the shift all exponentials would vanish."""
    weight = torch.tensor([[-1.0, 0.0], [-1.0, 1e-4], [-0.999, 0.0]])
    hidden, targets = torch.tensor([[size, 0.0], [size, 1.0]]), torch.tensor([2, 0])
    assert size < SAFE_SHIFT or float(hidden.norm(dim=1).max()) > SAFE_SHIFT
    for ours, theirs in zip(kernel(hidden, weight, targets), reference(hidden, weight, targets), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=3e-3 * size / 300)


@pytest.mark.parametrize("target", [-100, -1, 211, 10**7])
def test_a_target_that_is_no_entry_is_refused(target):
    """The compiled loop would add its gradient to memory beyond the weight's."""
    hidden, weight, targets = draw(3)
    targets[5] = target
    with pytest.raises(ValueError, match=f"{target}.*expected numbers from 0 to 210"):
        cross_entropy.fused(hidden, weight, targets)
