"""The exponential of the compiled CPU kernels: no branch and no call, so that 16 are computed at once."""

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

SAFE_SHIFT = 40.0
"""Largest bound on |score| that serves as a softmax's shift: exp(-2 * 40) is still a normal number in float32."""

jit = numba.njit(fastmath=True, cache=True)

inlined = numba.njit(fastmath=True, forceinline=True)
"""For what a kernel calls: a process that compiles would else run another copy of it, with other roundings, than one
that loads the kernel from numba's cache."""


@intrinsic
def _float32_of_bits(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@inlined
def exp(x):
    """exp(x) in float32 for x in [-87, 0], to 5 units in the last place (3e-7); below -87, exp(-87) = 2e-38.

    2^k times Taylor's polynomial in r = x - k ln(2), |r| <= ln(2)/2.
    """
    f = np.float32
    x = max(x, f(-87))
    k = np.floor(x * f(1.4426950408889634) + f(0.5))
    r = x - k * f(0.6931471805599453)
    p = f(1 / 5040)
    for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        p = p * r + f(c)
    return p * _float32_of_bits((np.int32(k) + np.int32(127)) << np.int32(23))
