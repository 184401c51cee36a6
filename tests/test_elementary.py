"""Exponential and logarithm of compiled code against numpy's, in a longer type."""

import numpy as np
import pytest
from numba import njit
from numba.extending import intrinsic

from layernorm_roles import elementary


@intrinsic
def quick_exp(typing, x):
    return x(x), lambda _, builder, signature, values: elementary.write_exp(builder, *values, quick=True)


def of_all(function):
    """A compiled function that writes function(x) of each x to `out`."""

    @njit
    def call(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    return call


exp_all, quick_exp_all, log_all = map(of_all, (elementary.exp, quick_exp, elementary.log))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors_of_exponential_and_logarithm_in_units_in_the_last_place(dtype):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-87, 0, 200_000), -(10.0 ** rng.uniform(-12, 1, 200_000)), [0.0]])
    x = x.astype(dtype)
    y = np.concatenate([1 - x, 1 + 10.0 ** rng.uniform(-9, 30, 200_000), [1.0]]).astype(dtype)
    for function, exact, at, ulp in ((exp_all, np.exp, x, 1), (log_all, np.log, y, 3)):
        out, truth = np.empty_like(at), exact(at.astype(np.longdouble))
        function(at, out)
        assert (np.abs(out - truth) <= ulp * np.spacing(truth.astype(dtype))).all()
    edges = np.array([np.nan, -np.inf, -1e30, -0.0], dtype)
    out = np.empty_like(edges)
    exp_all(edges, out)
    np.testing.assert_array_equal(out, np.array([np.nan, 0, 0, 1], dtype))
    log_all(np.array([np.nan, np.inf, 1, 2], dtype), out)
    np.testing.assert_array_equal(out, np.array([np.nan, np.inf, 0, np.log(dtype(2))], dtype))


def test_the_quick_exponential_has_errors_of_3_units_and_a_least_value():
    x = np.append(np.random.default_rng(0).uniform(-87, 0, 200_000), [-87.0, -88.0, -np.inf, 0.0])
    x = x.astype(np.float32)
    out, truth = np.empty_like(x), np.exp(np.maximum(x, -87).astype(np.float64))
    quick_exp_all(x, out)
    assert (np.abs(out - truth) <= 3 * np.spacing(truth.astype(np.float32))).all()
