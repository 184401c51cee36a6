"""Arrays and tensors that are certified, and those that are refused, by which sentence."""

import numpy as np
import pytest
import torch

from layernorm_roles.selectability import QueryEllipsoid, as_matrix, ceilings, certify


@pytest.mark.parametrize(
    "dtype,expected",
    [
        (torch.float64, np.float64),
        (torch.float32, np.float32),
        (torch.float16, np.float16),
        (torch.bfloat16, np.float32),
    ],
)
def test_every_number_of_a_tensor_stays_exactly_what_it_is(dtype, expected):
    weight = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(dtype)
    matrix = as_matrix(weight)
    assert matrix.dtype == expected
    np.testing.assert_array_equal(matrix.astype(np.float64), weight.double().numpy())


def test_a_parameter_can_be_certified():
    """NumPy reads neither tensors that require gradients nor bfloat16."""
    layer = torch.nn.Linear(3, 40, dtype=torch.bfloat16)
    for tensor in (layer.weight, layer.weight.detach()):
        with pytest.raises(ValueError, match=r"pass layernorm_roles.selectability.as_matrix\(keys\)"):
            certify(tensor)
    found = certify(as_matrix(layer.weight))
    found.verify(layer.weight.detach().float().numpy())


ONES = np.ones((2, 2))
REFUSED = [
    (np.zeros(3), r"shape \(3,\): expected 2 dimensions"),
    (np.zeros((1, 2, 2)), r"shape \(1, 2, 2\): expected 2 dimensions"),
    (np.zeros((0, 2)), "is empty"),
    (np.zeros((2, 0)), "is empty"),
    ([[1.0, 2.0], [3.0]], "keys: not an array"),
    (np.array([[1.0, np.nan]]), r"keys has nan at \(0, 1\): expected finite"),
    (np.array([[-np.inf]]), r"keys has -inf at \(0, 0\)"),
    (np.array([["a"]]), "keys has dtype <U1: expected real numbers"),
    (ONES.astype(complex), "keys has dtype complex128"),
    (ONES > 0, "keys has dtype bool"),
    (np.array([[2**53 + 1], [2**53]]), r"9007199254740993 at \(0, 0\)"),
    (np.array([[2**64 - 1]], np.uint64), "expected integers up to"),
    (np.array([[-(2**53) - 1], [2**53]]), r"-9007199254740993 at \(0, 0\)"),
    (np.array([[1.0, 1e-310], [1.0, 0.0]]), "column 1 has no entry above 1e-310"),
    (np.array([[1, 2], [3, np.longdouble(1) / 3]], np.longdouble), r"0\.3333\d+ at \(1, 1\) in float128"),
    (np.ma.masked_array(ONES, [[False, False], [True, False]]), r"keys is masked at \(1, 0\)"),
]


@pytest.mark.parametrize("judge", [certify, ceilings])
@pytest.mark.parametrize("keys,message", REFUSED)
def test_refused_keys(judge, keys, message):
    with pytest.raises(ValueError, match=message):
        judge(keys)


@pytest.mark.parametrize(
    "bias,message",
    [
        (np.zeros(3), "bias has 3 entries: expected 2"),
        ([0.0, np.nan], r"bias has nan at \(1,\)"),
        ([0.0, 1e300], "bias has 1e[+]300, and a column of the keys nothing above 1e-100"),
    ],
)
def test_refused_biases(bias, message):
    with pytest.raises(ValueError, match=message):
        certify(np.array([[1e-100, 1.0], [0.0, 0.0]]), bias)


@pytest.mark.parametrize("of", [QueryEllipsoid.of_layernorm, QueryEllipsoid.of_rmsnorm])
@pytest.mark.parametrize(
    "spoilt,message",
    [
        ({"w_q": np.ones((8, 4))}, r"gain has 8 entries: expected 4, for w_q of shape \(d_head, d_model\)"),
        ({"w_q": np.full((4, 8), np.nan)}, r"w_q has nan at \(0, 0\)"),
        ({"b_q": np.ones(8)}, "b_q has 8 entries: expected 4"),
        ({"gain": np.full(8, np.inf)}, r"gain has inf at \(0,\)"),
        ({"w_q": torch.ones(4, 8, dtype=torch.bfloat16)}, r"as_matrix\(w_q\)"),
    ],
)
def test_refused_queries_of_a_head(of, spoilt, message):
    given = {"w_q": np.ones((4, 8)), "b_q": None, "gain": np.ones(8)} | spoilt
    with pytest.raises(ValueError, match=message):
        of(**given, **({"bias": None} if of == QueryEllipsoid.of_layernorm else {}))
