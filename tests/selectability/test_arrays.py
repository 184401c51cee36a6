"""Tensors of torch as matrices."""

import numpy as np
import pytest
import torch

from layernorm_roles.selectability import as_matrix, certify


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
    """NumPy refuses tensors that require gradients, and bfloat16."""
    layer = torch.nn.Linear(3, 40, dtype=torch.bfloat16)
    with pytest.raises((RuntimeError, TypeError)):
        certify(layer.weight)
    found = certify(as_matrix(layer.weight))
    found.verify(layer.weight.detach().float().numpy())


def test_what_is_no_tensor_goes_through_numpy():
    keys = np.ones((2, 3), np.float32)
    assert as_matrix(keys) is keys
    assert as_matrix([[1, 2]]).tolist() == [[1, 2]]
