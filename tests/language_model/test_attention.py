"""The compiled causal attention against torch's, in float64, with its gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from layernorm_roles.language_model import attention
from layernorm_roles.language_model.attention import causal_attention, widened_attention


@pytest.mark.parametrize("d", [1, 2, 3, 8, 13, 16])
@pytest.mark.parametrize("n", [1, 2, 65, 700])
@pytest.mark.parametrize("size", [0.1, 1.0, 12.0])
def test_values_and_gradients(d, n, size):
    g = torch.Generator().manual_seed(n)
    q, k, v, grad = (size * torch.randn(2, 3, n, d, generator=g) for _ in range(4))
    ours = [t.clone().requires_grad_() for t in (q, k, v)]
    theirs = [t.double().requires_grad_() for t in (q, k, v)]
    out = causal_attention(*ours)
    expected = F.scaled_dot_product_attention(*theirs, is_causal=True)
    out.backward(grad)
    expected.backward(grad.double())
    scale = max(1.0, float((q.double() @ k.double().mT).abs().max()))
    # A score's gradient is a difference of products of grad and v, whose rounding stays where the difference is 0.
    for a, b in [(out, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))]:
        a, b = a.detach(), b.detach()
        torch.testing.assert_close(
            a.double(), b, rtol=0, atol=1e-6 * scale * max(1.0, size, float(b.abs().max()))
        )


def test_no_query_sees_what_comes_later():
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, 20, 2, generator=g) for _ in range(3))
    before = causal_attention(q, k, v)
    k[..., 12:, :], v[..., 12:, :] = 9.0, -9.0
    after = causal_attention(q, k, v)
    assert torch.equal(before[..., :12, :], after[..., :12, :])
    assert not torch.equal(before[..., 12:, :], after[..., 12:, :])


@pytest.mark.parametrize("heads,n", [(1, 16), (4, 8)])
def test_keys_of_another_shape_are_refused(heads, n):
    """torch would repeat one head for all queries; the compiled loop would read beyond it."""
    q, other = torch.randn(1, 4, 16, 2), torch.randn(1, heads, n, 2)
    for k, v in ((other, other), (q, other), (other, q)):
        with pytest.raises(ValueError, match="expected equal shapes"):
            attention._CausalAttention.apply(q, k, v)


@pytest.mark.parametrize("d", [2, 7, 8, 11])
@pytest.mark.parametrize("kind", ["causal", "padded", "all"])
def test_widened_heads_have_the_same_values_and_gradients(d, kind):
    g = torch.Generator().manual_seed(d)
    q, k, v, grad = (torch.randn(2, 3, 9, d, generator=g, dtype=torch.float64) for _ in range(4))
    present = (torch.arange(9) < torch.tensor([[4], [9]]))[:, None, None]
    options = {"causal": {"is_causal": True}, "padded": {"attn_mask": present}, "all": {}}[kind]
    ours, theirs = ([t.clone().requires_grad_() for t in (q, k, v)] for _ in range(2))
    out, expected = widened_attention(*ours, **options), F.scaled_dot_product_attention(*theirs, **options)
    out.backward(grad)
    expected.backward(grad)
    assert out.shape == expected.shape
    for a, b in [(out, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))]:
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_a_gpu_gets_the_widened_heads(monkeypatch):
    calls = []

    def widened(*tensors, **options):
        calls.append((tensors, options))
        return tensors[2]

    monkeypatch.setattr(attention, "widened_attention", widened)
    with FakeTensorMode():  # a CUDA tensor without a GPU
        q, k, v = (torch.empty(2, 3, 9, 2, device="cuda") for _ in range(3))
    causal_attention(q, k, v, 0.1)
    attention.attention(q, k, v, attn_mask=None)
    assert calls == [((q, k, v), {"dropout_p": 0.1, "is_causal": True}), ((q, k, v), {"attn_mask": None})]


@pytest.mark.parametrize(
    "changes", [{"dtype": torch.float64}, {"d": attention.WIDEST_HEAD + 1}, {"dropout": 0.5}]
)
def test_what_the_compiled_kernel_does_not_take_goes_to_torch(changes, monkeypatch):
    monkeypatch.setattr(attention._CausalAttention, "apply", lambda *tensors: pytest.fail("the kernel ran"))
    shape = (1, 1, 5, changes.get("d", 2))
    q, k, v = (torch.ones(shape, dtype=changes.get("dtype", torch.float32)) for _ in range(3))
    out = causal_attention(q, k, v, changes.get("dropout", 0.0))
    assert torch.equal(out, v) == ("dropout" not in changes)
