"""Exponential and logarithm for compiled code, without branch or call, so that LLVM vectorises them."""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from layernorm_roles.compiling import IN_ONE

STRICT = ("contract", "nsz")
"""Flags of LLVM's floating-point operations: they may be fused and lose the sign of 0, but are not reordered."""

_LAYOUT = {
    # numba's type: numpy's type, integer of that size, bits of the mantissa, bias of the exponent, log of the
    # smallest normal number rounded up, ln(2) in two parts of which the first times an exponent is exact, degrees of
    # the series of exp and log
    types.float32: (np.float32, np.int32, 23, 127, -87.0, 0.693359375, -2.12194440054690583e-4, 7, 9),
    types.float64: (
        np.float64, np.int64, 52, 1023, -708.0, 6.93147180369123816490e-1, 1.90821492927058770002e-10, 13, 21,
    ),
}  # fmt: skip


SHORT = (0.008297646, 0.041915417, 0.16667575, 0.49998894, 0.9999997, 1.0000001)
"""Coefficients, highest power first, of the polynomial of degree 5 with the least relative error from exp on |r| <=
ln(2)/2: 8e-8, little more than a rounding of float32."""


@intrinsic
def exp(typing, x):
    """exp(x) for x <= 0, float32 or float64, accurate to 1 ulp; only functions that numba compiles can call it.

    The result is 0 for x below -87 (float32) or -708 (float64), and NaN for NaN. `typing` comes from numba.
    """
    return x(x), lambda context, builder, signature, values: write_exp(builder, *values)


def write_exp(builder: ir.IRBuilder, x: ir.Value, quick: bool = False) -> ir.Value:
    """Emit LLVM instructions that compute exp(x) for x <= 0, and return the LLVM value of the result.

    x is a number or a vector, of float32 or float64. The method is exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r|
    <= ln(2) / 2, and Taylor's series for exp(r). `quick`, for float32 alone, takes a shorter polynomial: errors reach 3
    ulp, and the result for x below -87 is exp(-87) = 2e-38 instead of 0.
    """
    single = getattr(x.type, "element", x.type) == ir.FloatType()
    layout = _LAYOUT[types.float32 if single else types.float64]
    float_, _, mantissa, bias, lowest, high, low, degree, _ = layout
    integer = ir.IntType(32 if single else 64)
    integer = ir.VectorType(integer, x.type.count) if isinstance(x.type, ir.VectorType) else integer

    def constant(value, type_=x.type):
        value = float(float_(value)) if type_ is x.type else value
        return ir.Constant(type_, [value] * type_.count if isinstance(type_, ir.VectorType) else value)

    def multiply_add(a, b, c):
        return builder.fadd(builder.fmul(a, b, flags=STRICT), c, flags=STRICT)

    lowest = constant(lowest)
    below = builder.fcmp_ordered("<", x, lowest, flags=STRICT)
    x = builder.select(below, lowest, x)
    n = multiply_add(x, constant(1 / math.log(2)), constant(-0.5))
    n = builder.fptosi(n, integer)  # truncated towards zero, and x <= 0
    m = builder.sitofp(n, x.type)
    r = multiply_add(m, constant(-high), x)
    r = multiply_add(m, constant(-low), r)
    first, *others = SHORT if quick else [1 / math.factorial(k) for k in range(degree, -1, -1)]
    y = constant(first)
    for coefficient in others:
        y = multiply_add(y, r, constant(coefficient))
    power = builder.shl(builder.add(n, constant(bias, integer)), constant(mantissa, integer))
    y = builder.fmul(y, builder.bitcast(power, x.type), flags=STRICT)
    return y if quick else builder.select(below, constant(0), y)


def log(x):
    """log(x) for x >= 1, float32 or float64, accurate to 3 ulp; only functions that numba compiles can call it.

    The result is NaN if x is NaN.
    """


@overload(log, jit_options={"fastmath": {*STRICT}, **IN_ONE})
def _log_of_type(x):
    """What numba compiles where a function calls `log(x)`, for numba's type `x` of the argument."""
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
