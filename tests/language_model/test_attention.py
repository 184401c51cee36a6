"""The compiled causal attention against torch's, in float64, with its gradients, and the masks of its dropout."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from layernorm_roles.language_model import attention, kernels
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
            attention._CausalAttention.apply(q, k, v, 0.0)


def threefry(key, x, y):
    """Threefry-2x32 with 20 rounds of the counter (x, y), arrays of integers, as Salmon et al. 2011 write it down."""
    mask = np.uint64(2**32 - 1)
    keys = [np.uint64(word) for word in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = (np.asarray(t, np.uint64) for t in (x, y))
    x, y = (x + keys[0]) & mask, (y + keys[1]) & mask
    for number in range(20):
        by = np.uint64((13, 15, 26, 6, 17, 29, 16, 24)[number % 8])
        x = (x + y) & mask
        y = (((y << by) | (y >> (np.uint64(32) - by))) & mask) ^ x
        if number % 4 == 3:
            group = number // 4 + 1
            x, y = (x + keys[group % 3]) & mask, (y + keys[(group + 1) % 3] + np.uint64(group)) & mask
    return x, y


def drawn(heads, n, key, threshold, first=0):
    """What the kernel keeps, as an array of 0 and 1 with a row a query and a column a key, 0 after the query."""
    kept = kernels.empty_kept(heads, n).numpy()
    kernels.draw_kept(kept, first, key, threshold)
    return np.tril(np.unpackbits(kept.view(np.uint8), axis=-1, bitorder="little")[..., :n])


def test_dropout_keeps_what_threefry_says_of_key_head_query_and_position():
    """The known answers are those of Random123, the authors' library."""
    for key, counter, answer in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        assert threefry(key, *counter) == answer
    heads, n, key, threshold, first = 3, 208, (2**32 - 5, 77), 50_000, 11
    h, i, j = np.indices((heads, n, n))
    words = threefry(key, j // 64 * 16 + j % 16, (first + h) * n + i)
    number = j // 16 % 4  # both words' upper halves come first, then their lower halves
    bits = np.where(number % 2, words[1], words[0]) >> np.where(number < 2, np.uint64(16), np.uint64(0))
    expected = np.tril((bits & np.uint64(0xFFFF)) < threshold)
    assert np.array_equal(drawn(heads, n, key, threshold, first), expected)


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_the_share_of_dropped_weights_and_their_independence(dropout):
    heads, n = 8, 512
    kept = drawn(heads, n, (1, 2), round((1 - dropout) * 2**16))
    pairs = heads * n * (n + 1) / 2
    deviation = math.sqrt(dropout * (1 - dropout) / pairs)
    assert kept.sum() / pairs == pytest.approx(1 - dropout, abs=5 * deviation)
    # Neighbours of every kind are dropped together as often as chance has it.
    visible = np.broadcast_to(np.tri(n), kept.shape)
    for axis, step in ((0, 1), (1, 1), (1, 8), (2, 1), (2, 16), (2, 32), (2, 64)):
        both, of = (t * np.roll(t, step, axis) for t in (visible - kept, visible))
        assert both.sum() / of.sum() == pytest.approx(dropout**2, abs=7 * deviation)
    assert not np.array_equal(kept, drawn(heads, n, (1, 3), round((1 - dropout) * 2**16)))


@pytest.mark.parametrize(("n", "d"), [(1, 2), (70, 1), (300, 2), (129, 8), (65, 16)])
@pytest.mark.parametrize("dropout", [0.1, 0.75])
def test_with_dropout_values_and_gradients_are_torchs_with_the_mask(n, d, dropout):
    shape, g = (2, 3, n, d), torch.Generator().manual_seed(n)
    q, k, v, grad = (3 * torch.randn(shape, generator=g) for _ in range(4))
    ours, theirs = (
        [t.clone().requires_grad_() for t in (q, k, v)],
        [t.double().requires_grad_() for t in (q, k, v)],
    )
    torch.manual_seed(n)
    out = causal_attention(*ours, dropout)
    torch.manual_seed(n)
    key, threshold = tuple(torch.randint(2**32, (2,)).tolist()), round((1 - dropout) * 2**16)
    kept = torch.from_numpy(drawn(6, kernels.used(n), key, threshold)[:, :n, :n].reshape(2, 3, n, n).copy())
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    weights = (theirs[0] @ theirs[1].mT / d**0.5).masked_fill(later, -torch.inf).softmax(dim=-1)
    expected = weights * kept * 2**16 / threshold @ theirs[2]
    out.backward(grad)
    expected.backward(grad.double())
    for a, b in [(out, expected), *((a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))]:
        torch.testing.assert_close(a.double(), b, rtol=0, atol=4e-5 * max(1.0, float(b.detach().abs().max())))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_numbers_do_not_depend_on_threads(dropout, threads):
    shape, g = (3, 3, 130, 2), torch.Generator().manual_seed(0)
    q, k, v, grad = (torch.randn(shape, generator=g) for _ in range(4))
    found = []
    for number in (1, 2, 4):
        threads(number)
        torch.manual_seed(4)
        inputs = [t.clone().requires_grad_() for t in (q, k, v)]
        out = causal_attention(*inputs, dropout)
        found.append((out, *torch.autograd.grad(out, inputs, grad)))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


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


@pytest.mark.parametrize("changes", [{"dtype": torch.float64}, {"d": attention.WIDEST_HEAD + 1}])
def test_what_the_compiled_kernel_does_not_take_goes_to_torch(changes, monkeypatch):
    monkeypatch.setattr(attention._CausalAttention, "apply", lambda *arguments: pytest.fail("the kernel ran"))
    shape = (1, 1, 5, changes.get("d", 2))
    q, k, v = (torch.ones(shape, dtype=changes.get("dtype", torch.float32)) for _ in range(3))
    assert torch.equal(causal_attention(q, k, v), v)
