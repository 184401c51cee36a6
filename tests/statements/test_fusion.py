import numpy as np
import pytest
from scipy.special import gammaln

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.statements import fusion


@pytest.mark.parametrize("d", [4, 16])
def test_error_of_layernorm_on_gaussians(d):
    """LN(y) = sqrt(d) u with u uniform on S ∩ U, and y's length in U is chi with m = d - 1 degrees of freedom and
    independent of u. The best map is a multiple of P, and misses 1 - E[chi]^2 / E[chi^2]."""
    heads, zero, one = np.random.default_rng(2).standard_normal((60_000, d)), np.zeros(d), np.eye(d)
    block = fusion.AttentionBlock(heads, heads, one, zero, np.ones(d), zero, one, {})
    (error,) = fusion.linear_errors(heads, [fusion.before_nonlinearity(block, "norm")], 30_000)
    m = d - 1
    chi_mean = np.sqrt(2) * np.exp(gammaln((m + 1) / 2) - gammaln(m / 2))
    assert error == pytest.approx(1 - chi_mean**2 / m, rel=0.05)


def test_random_blocks_are_the_draws_of_their_seed_with_weights_of_variance_1_over_inputs():
    found = list(fusion.random_blocks([4, 6], seeds=[3, 5]))
    for (d, seed), made in zip([(4, 3), (4, 5), (6, 3), (6, 5)], found, strict=True):
        rng, n = generator(Stream.FUSION, seed, d), 2 * 16 * d  # half of the tokens is fitted
        assert made.columns == {"source": "random", "seed": seed, "layer": 1}
        known = [rng.standard_normal((n, d)), rng.standard_normal((n, d))]
        known += [rng.standard_normal((d, d)) / d**0.5, np.zeros(d), np.ones(d), np.zeros(d)]
        known.append(rng.standard_normal((d, 4 * d)) / d**0.5)
        for ours, theirs in zip(made, known, strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=1e-15)


def test_the_table_of_a_block_is_what_plain_formulas_give():
    """Gains, biases and b_O are not trivial, and 61 tokens have no half."""
    rng, n, d, d_ff = np.random.default_rng(5), 61, 5, 9
    stream, heads = rng.standard_normal((n, d)) + 1, rng.standard_normal((n, d)) - 2
    w_o, w_1 = rng.standard_normal((d, d)), rng.standard_normal((d, d_ff))
    b_o, gain, bias = rng.standard_normal((3, d))
    columns = {"source": "x", "seed": 6, "layer": 2}
    block = fusion.AttentionBlock(stream, heads, w_o, b_o, gain, bias, w_1, columns)
    found = fusion.measure([block])
    assert found.arrangement.tolist() == ["plain", "residual", "norm", "residual_norm"]
    for row in found.itertuples():
        y = heads @ w_o + b_o + stream * row.arrangement.startswith("residual")
        if row.arrangement.endswith("norm"):
            y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True) * gain + bias
        out = y @ w_1
        np.testing.assert_allclose(fusion.before_nonlinearity(block, row.arrangement), out, atol=1e-12)
        x = np.hstack([heads, np.ones((n, 1))])
        rest, left = out[30:] - x[30:] @ np.linalg.pinv(x[:30]) @ out[:30], out[30:] - out[30:].mean(axis=0)
        assert row.error == pytest.approx((rest**2).sum() / (left**2).sum(), abs=1e-12)
        assert (row.d, row.source, row.seed, row.layer) == (d, "x", 6, 2)
