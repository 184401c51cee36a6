"""The compiled causal attention against torch's, in float64, with its gradients, and the masks of its dropout."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from layernorm_roles.language_model import attention
from layernorm_roles.language_model.attention import causal_attention
from layernorm_roles.language_model.kernels import attention as kernels
from layernorm_roles.language_model.kernels import softmax


def drawn_inputs(shape, size=1.0, dtype=torch.float32):
    """Queries, keys, values, and a gradient of what attention makes of them, of the shape (batch, heads, n, d_head)."""
    g = torch.Generator().manual_seed(shape[2])
    return [size * torch.randn(shape, generator=g, dtype=dtype) for _ in range(4)]


def outputs(attend, q, k, v, grad):
    """What `attend` makes of q, k and v, and its gradients with respect to them, in one list."""
    inputs = [t.clone().requires_grad_() for t in (q, k, v)]
    out = attend(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, grad.to(out.dtype))]


def compiled(dropout=0.0):
    """The compiled attention, of queries, keys and values side by side, as a function of the three."""

    def attend(q, k, v):
        packed = torch.cat([t.transpose(1, 2).flatten(2) for t in (q, k, v)], dim=-1)
        return causal_attention(packed, q.shape[1], dropout).unflatten(-1, (q.shape[1], -1)).transpose(1, 2)

    return attend


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
    kept = kernels.empty_dropout_mask(heads, n).numpy()
    kernels.draw_dropout_mask(kept, first, key, threshold)
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


@pytest.mark.parametrize(("n", "d"), [(1, 2), (65, 13), (65, 16), (129, 8), (300, 2), (700, 1)])
@pytest.mark.parametrize("size", [1.0, 12.0])
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.75])
def test_values_and_gradients_are_those_of_the_formula_with_the_mask_of_dropout(n, d, size, dropout):
    given = drawn_inputs((2, 3, n, d), size)
    exact, kept = [t.double() for t in given], torch.ones(2, 3, n, n)
    torch.manual_seed(n)
    key, threshold = tuple(torch.randint(2**32, (2,)).tolist()), round((1 - dropout) * 2**16)
    if dropout:
        kept = drawn(6, softmax.padded(n), key, threshold)[:, :n, :n].reshape(2, 3, n, n).copy()
        kept = torch.from_numpy(kept)
    later = torch.ones(n, n, dtype=torch.bool).triu(1)

    def masked(q, k, v):
        weights = (q @ k.mT / d**0.5).masked_fill(later, -torch.inf).softmax(dim=-1)
        return weights * kept * 2**16 / threshold @ v

    torch.manual_seed(n)
    scale = max(1.0, float((exact[0] @ exact[1].mT).abs().max()))
    # A score's gradient is a difference of products of grad and v, whose rounding stays where the difference is 0.
    for a, b in zip(outputs(compiled(dropout), *given), outputs(masked, *exact), strict=True):
        atol = 1e-6 * scale * max(1.0, size, float(b.abs().max()))
        torch.testing.assert_close(a.double(), b, rtol=0, atol=atol)


@pytest.mark.parametrize("d", [16, 17])
def test_dropout_of_compiled_and_of_torchs_attention_has_its_rate(d):
    """Scores are 0 and the values unit vectors, so that results are the attention weights, of which a quarter stays."""
    qkv = torch.cat([torch.zeros(1, d, 2 * d), torch.eye(d)[None]], dim=-1)
    found = causal_attention(qkv, 1, dropout=0.75)[0] * torch.arange(1, d + 1)[:, None]
    torch.testing.assert_close(found, 4.0 * (found > 0))
    assert 0.1 < (found > 0).sum() / (d * (d + 1) / 2) < 0.4 and not found.triu(1).any()


@pytest.mark.parametrize("d", [2, 7, 8, 11])
def test_widened_heads_have_the_same_values_and_gradients(d, monkeypatch):
    monkeypatch.setitem(attention.ALIGNMENT, "cpu", attention.ALIGNMENT["cuda"])
    given = drawn_inputs((2, 3, 9, d), dtype=torch.float64)
    present = torch.arange(9) < torch.tensor([[4], [9]])
    for options in ({"is_causal": True}, {"attn_mask": present[:, None, None]}, {}):
        wide = outputs(lambda *heads, own=options: attention.attention(*heads, **own), *given)
        plain = outputs(lambda *heads, own=options: F.scaled_dot_product_attention(*heads, **own), *given)
        torch.testing.assert_close(wide, plain, rtol=1e-12, atol=1e-13)
