"""Exponential and logarithm for compiled code, without branch or call, so that LLVM vectorises them."""

import math

import numpy as np
from numba import types
from numba.extending import overload

from layernorm_roles.majority.kernel.jit import IN_ONE, STRICT


def exp(x):
    """exp(x) for x <= 0, to 1 unit in the last place; 0 below the smallest normal number; NaN stays NaN.

    Only for compiled code, where numba puts `_exp_of_type` in its place.
    """


def log(x):
    """log(x) for x >= 1, to 3 units in the last place; NaN stays NaN.

    Only for compiled code, where numba puts `_log_of_type` in its place.
    """


_LAYOUT = {
    # numba's type: numpy's type, integer of that size, bits of the mantissa, bias of the exponent, log of the
    # smallest normal number rounded up, ln(2) in two parts of which the first times an exponent is exact, degrees of
    # the series of exp and log
    types.float32: (np.float32, np.int32, 23, 127, -87.0, 0.693359375, -2.12194440054690583e-4, 7, 9),
    types.float64: (
        np.float64, np.int64, 52, 1023, -708.0, 6.93147180369123816490e-1, 1.90821492927058770002e-10, 13, 21,
    ),
}  # fmt: skip


@overload(exp, jit_options={"fastmath": STRICT, **IN_ONE})
def _exp_of_type(x):
    """The implementation of `exp` for numba's type `x`."""
    float_, int_, mantissa, bias, lowest, high, low, degree, _ = _LAYOUT[x]
    mantissa, bias, lowest, high, low = int_(mantissa), int_(bias), float_(lowest), float_(high), float_(low)
    per_ln2, half, zero = float_(1 / math.log(2)), float_(0.5), float_(0)
    last, *taylor = (float_(1 / math.factorial(k)) for k in range(degree, -1, -1))
    taylor = tuple(taylor)

    def exp_(x):
        # exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2) / 2: Taylor's series for exp(r), 2^n by its bits.
        n = int_((x if x > lowest else lowest) * per_ln2 - half)  # truncated towards zero, and x <= 0
        m = float_(n)
        r = (x - m * high) - m * low
        y = last
        for coefficient in taylor:
            y = y * r + coefficient
        return zero if x < lowest else y * int_((n + bias) << mantissa).view(float_)

    return exp_


@overload(log, jit_options={"fastmath": STRICT, **IN_ONE})
def _log_of_type(x):
    """The implementation of `log` for numba's type `x`."""
    float_, int_, mantissa, _, _, high, low, _, degree = _LAYOUT[x]
    mantissa, ln2, one, infinity = int_(mantissa), float_(high + low), float_(1), float_(np.inf)
    root_half = float_(math.sqrt(0.5)).view(int_)
    last, *series = (float_(2 / k) for k in range(degree, 0, -2))
    series = tuple(series)

    def log_(x):
        # log(x) = n log 2 + log(m), 1/2 <= m^2 < 2; log(m) = 2 artanh(z) = 2 (z + z^3 / 3 + ...), z = (m-1) / (m+1).
        bits = float_(x).view(int_)
        n = (bits - root_half) >> mantissa
        m = int_(bits - (n << mantissa)).view(float_)
        z = (m - one) / (m + one)
        y = last
        for coefficient in series:
            y = y * (z * z) + coefficient
        return float_(n) * ln2 + y * z if x < infinity else x

    return log_
