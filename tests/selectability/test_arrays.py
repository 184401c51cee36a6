"""Arrays and tensors that are certified, and those that are refused, by which sentence."""

import numpy as np
import pytest
import torch

from layernorm_roles.selectability import QueryEllipsoid, as_matrix, ceilings, certify, certify_many


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_every_number_of_a_tensor_stays_exactly_what_it_is(name):
    """NumPy reads neither tensors that require gradients nor bfloat16."""
    weight = torch.nn.Linear(3, 40, dtype=getattr(torch, name)).weight
    with pytest.raises(ValueError, match=r"pass layernorm_roles.selectability.as_matrix\(keys\)"):
        certify(weight)
    matrix, exact = as_matrix(weight), weight.detach().double().numpy()
    assert matrix.dtype == {"bfloat16": "float32"}.get(name, name)
    np.testing.assert_array_equal(matrix.astype(np.float64), exact)
    certify(matrix).verify(exact)


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
    (np.array([[2**53], [2**53 + 1]]), r"9007199254740993 at \(1, 0\)"),
    (np.array([[2**64 - 1]], np.uint64), "expected integers up to"),
    (np.array([[-(2**53)], [-(2**53) - 1]]), r"-9007199254740993 at \(1, 0\)"),
    (np.array([[1.0, 1e-310], [1.0, 0.0]]), "column 1 has no entry above 1e-310"),
    (np.array([[1, 2], [3, np.longdouble(1) / 3]], np.longdouble), r"0\.3333\d+ at \(1, 1\) in float128"),
    (np.ma.masked_array(ONES, [[False, False], [True, False]]), r"keys is masked at \(1, 0\)"),
]
TINY = np.array([[1e-100, 1.0], [0.0, 0.0]])
HEAD = {"w_q": np.ones((4, 8)), "b_q": None, "gain": np.ones(8)}
OF_A_HEAD = [
    ({"w_q": np.ones((8, 4))}, r"gain has 8 entries: expected 4, for w_q of shape \(d_head, d_model\)"),
    ({"w_q": np.full((4, 8), np.nan)}, r"w_q has nan at \(0, 0\)"),
    ({"b_q": np.ones(8)}, "b_q has 8 entries: expected 4"),
    ({"gain": np.full(8, np.inf)}, r"gain has inf at \(0,\)"),
    ({"w_q": torch.ones(4, 8, dtype=torch.bfloat16)}, r"as_matrix\(w_q\)"),
]
ELLIPSOIDS = [
    (QueryEllipsoid(np.zeros(3), np.eye(3)), r"a centre of shape \(3,\) and axes of shape \(3, 3\)"),
    (QueryEllipsoid(np.zeros(2), np.full((2, 2), np.nan)), r"axes has nan at \(0, 0\)"),
]


@pytest.mark.parametrize(
    "call,arguments,message",
    [
        *((call, {"keys": keys}, message) for call in (certify, ceilings) for keys, message in REFUSED),
        (certify_many, {"stack": ONES}, r"stack of keys has shape \(2, 2\): expected 3 dimensions"),
        (certify, {"keys": TINY, "bias": np.zeros(3)}, "bias has 3 entries: expected 2"),
        (certify, {"keys": TINY, "bias": [0.0, np.nan]}, r"bias has nan at \(1,\)"),
        (certify, {"keys": TINY, "bias": [0.0, 1e-310]}, "bias: column 0 has no entry above 1e-310"),
        (certify, {"keys": TINY, "bias": [0.0, 1e250]}, "1e[+]250, and a column of the keys nothing above"),
        (certify, {"keys": TINY, "bias": np.zeros(2), "causal": True}, "causal = True with a bias"),
        *((QueryEllipsoid.of_layernorm, {"bias": None} | HEAD | spoilt, says) for spoilt, says in OF_A_HEAD),
        *((QueryEllipsoid.of_rmsnorm, HEAD | spoilt, says) for spoilt, says in OF_A_HEAD),
        *((ceilings, {"keys": ONES, "queries": queries}, says) for queries, says in ELLIPSOIDS),
    ],
)
def test_what_is_refused_by_which_sentence(call, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(**arguments)
