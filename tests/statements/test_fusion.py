import numpy as np
import pytest
import torch
from default_settings import example
from scipy.special import gammaln

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


@pytest.mark.parametrize("d", [4, 32])
def test_error_of_layernorm_on_gaussians(d):
    """LN(y) = sqrt(d) u with u uniform on S ∩ U, and y's length in U is chi with m = d - 1 degrees of freedom and
    independent of u. The best map is a multiple of P, and misses 1 - E[chi]^2 / E[chi^2]."""
    rng = np.random.default_rng(2)
    b = block(rng, 60_000, d)._replace(b_o=np.zeros(d))
    m = d - 1
    chi_mean = np.sqrt(2) * np.exp(gammaln((m + 1) / 2) - gammaln(m / 2))
    assert error(b, "norm", b.heads) == pytest.approx(1 - chi_mean**2 / m, rel=0.05)


def test_parameters(table):
    row = table[(table.d_heads == 16) & (table.inputs == "heads")].iloc[0]
    assert row.parameters_pair == 16 * 8 + 8 * 32
    assert row.parameters_single == 16 * 32  # wide heads: the pair is the cheaper one


def test_errors_are_those_of_tokens_that_were_not_fitted():
    """The first half is exactly linear in the inputs; in the second each output misses the map by a known amount."""
    rng = np.random.default_rng(4)
    inputs, matrix = rng.standard_normal((40, 3)), rng.standard_normal((3, 2))
    outputs = inputs @ matrix + 7.0
    outputs[20:] += (missed := rng.standard_normal((20, 2)))
    held_out = outputs[20:]
    expected = (missed**2).sum() / ((held_out - held_out.mean(axis=0)) ** 2).sum()
    assert fusion.linear_errors(inputs, [outputs], 20) == [pytest.approx(expected)]
