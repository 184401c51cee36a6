"""How numba compiles the functions of the kernel."""

from layernorm_roles.compiling import IN_ONE, njit

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered, products fused and divisions made reciprocals; NaN and infinity keep their meaning."""

inlined = njit(fastmath=FASTMATH, **IN_ONE)
"""Compiles a function with `FASTMATH` into each function that calls it."""
