import numpy as np
import pytest
import torch
from default_settings import example
from scipy.special import gammaln

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Fusion
from layernorm_roles.statements import fusion

SETTINGS = example(Fusion, d_model=[8], head_factors=[0.5, 1, 2], expansion=4, tokens_per_input=8)


@pytest.fixture(scope="module")
def table():
    return fusion.measure(fusion.random_blocks(SETTINGS, seeds=[0, 1]))


def block(rng, tokens, d, w_1=None):
    """Square and orthogonal W_O, so that c W_O is Gaussian with unit variance."""
    return fusion.AttentionBlock(
        stream=rng.standard_normal((tokens, d)),
        heads=rng.standard_normal((tokens, d)),
        w_o=np.linalg.qr(rng.standard_normal((d, d)))[0],
        b_o=rng.standard_normal(d),
        gain=np.ones(d),
        bias=np.zeros(d),
        w_1=np.eye(d) if w_1 is None else w_1,
        columns={"source": "random", "variant": None, "seed": 0, "layer": 1},
    )


def error(b, arrangement, inputs):
    (value,) = fusion.linear_errors(inputs, [fusion.before_nonlinearity(b, arrangement)], len(inputs) // 2)
    return value


def test_without_residual_and_norm_the_fused_map_is_exact(table):
    plain = table[table.arrangement == "plain"]
    assert plain.error.max() < 1e-25
    assert (plain.rank_product == np.minimum(plain.d_heads, plain.d)).all()


def test_the_fused_map_is_the_product():
    rng = np.random.default_rng(0)
    b = block(rng, 400, 6, rng.standard_normal((6, 24)))
    assert np.allclose(fusion.before_nonlinearity(b, "plain"), b.heads @ (b.w_o @ b.w_1) + b.b_o @ b.w_1)


def test_with_residual_stream_and_heads_fit_exactly_and_heads_alone_do_not(table):
    residual = table[table.arrangement == "residual"]
    assert residual[residual.inputs == "stream_and_heads"].error.max() < 1e-25
    assert residual[residual.inputs == "heads"].error.min() > 0.2


def test_error_of_the_residual_is_the_streams_share():
    """Unit Gaussians, orthogonal maps: half of the variance of x + c W_O is x, which c says nothing about."""
    rng = np.random.default_rng(1)
    b = block(rng, 40_000, 6)
    assert error(b, "residual", b.heads) == pytest.approx(0.5, abs=0.02)


def test_layer_norm_is_torchs():
    x, gain, bias = (torch.randn(size, dtype=torch.float64) for size in ((5, 7), (7,), (7,)))
    theirs = torch.nn.functional.layer_norm(x, (7,), gain, bias, 0.0)
    assert np.allclose(fusion.layer_norm(x.numpy(), gain.numpy(), bias.numpy()), theirs)


@pytest.mark.parametrize("d", [4, 16])
def test_error_of_layernorm_on_gaussians(d):
    """LN(y) = sqrt(d) u with u uniform on S ∩ U, and y's length in U is chi with m = d - 1 degrees of freedom and
    independent of u. The best map is a multiple of P, and misses 1 - E[chi]^2 / E[chi^2]."""
    rng = np.random.default_rng(2)
    b = block(rng, 60_000, d)._replace(b_o=np.zeros(d))
    m = d - 1
    chi_mean = np.sqrt(2) * np.exp(gammaln((m + 1) / 2) - gammaln(m / 2))
    assert error(b, "norm", b.heads) == pytest.approx(1 - chi_mean**2 / m, rel=0.05)


def test_random_blocks_are_the_draws_of_their_seed_with_weights_of_variance_1_over_inputs():
    settings = example(Fusion, d_model=[4, 6], head_factors=[0.5, 1], expansion=3, tokens_per_input=2)
    found = list(fusion.random_blocks(settings, seeds=[3, 5]))
    sizes = [(d, h, seed) for d, h in ((4, 2), (4, 4), (6, 3), (6, 6)) for seed in (3, 5)]
    for (d, h, seed), made in zip(sizes, found, strict=True):
        rng, n = generator(Stream.FUSION, seed, d, h), 2 * 2 * (d + h)  # half of the tokens is fitted
        assert made.columns == {"source": "random", "variant": None, "seed": seed, "layer": 1}
        known = [rng.standard_normal((n, d)), rng.standard_normal((n, h))]
        known += [rng.standard_normal((h, d)) / h**0.5, np.zeros(d), np.ones(d), np.zeros(d)]
        known.append(rng.standard_normal((d, 3 * d)) / d**0.5)
        for ours, theirs in zip(made, known, strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=1e-15)


def test_the_table_of_a_block_is_what_plain_formulas_give():
    """No two sizes and no two ranks are equal, gains, biases and b_O are not trivial, and 61 tokens have no half."""
    rng, n, d, h, d_ff = np.random.default_rng(5), 61, 5, 7, 9
    stream, heads = rng.standard_normal((n, d)) + 1, rng.standard_normal((n, h)) - 2
    w_o, w_1 = rng.standard_normal((h, d)), rng.standard_normal((d, d_ff))
    w_o[:, 3:], w_1[:1] = 0, 0  # ranks 3 and 4; of the product 2
    b_o, gain, bias = rng.standard_normal((3, d))
    columns = {"source": "x", "variant": "y", "seed": 6, "layer": 2}
    found = fusion.measure([fusion.AttentionBlock(stream, heads, w_o, b_o, gain, bias, w_1, columns)])
    assert len(found) == 8
    for row in found.itertuples():
        y = heads @ w_o + b_o + stream * row.arrangement.startswith("residual")
        if row.arrangement.endswith("norm"):
            y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True) * gain + bias
        out = y @ w_1
        x = heads if row.inputs == "heads" else np.hstack([stream, heads])
        x = np.hstack([x, np.ones((n, 1))])
        rest, left = out[30:] - x[30:] @ np.linalg.pinv(x[:30]) @ out[:30], out[30:] - out[30:].mean(axis=0)
        assert row.error == pytest.approx((rest**2).sum() / (left**2).sum(), abs=1e-12)
        assert (row.d, row.d_heads, row.d_ff, row.n_fit, row.n_held_out) == (d, h, d_ff, 30, 31)
        assert (row.rank_w_o, row.rank_product, row.parameters_pair) == (3, 2, 7 * 5 + 5 * 9)
        assert row.parameters_single == (x.shape[1] - 1) * 9
        assert (row.source, row.variant, row.seed, row.layer) == ("x", "y", 6, 2)
    assert set(found.arrangement) == {"plain", "residual", "norm", "residual_norm"}


def test_errors_are_those_of_tokens_that_were_not_fitted():
    """The first half is exactly linear in the inputs; in the second each output misses the map by a known amount."""
    rng = np.random.default_rng(4)
    inputs, matrix = rng.standard_normal((40, 3)), rng.standard_normal((3, 2))
    outputs = inputs @ matrix + 7.0
    outputs[20:] += (missed := rng.standard_normal((20, 2)))
    held_out = outputs[20:]
    expected = (missed**2).sum() / ((held_out - held_out.mean(axis=0)) ** 2).sum()
    assert fusion.linear_errors(inputs, [outputs], 20) == [pytest.approx(expected)]
