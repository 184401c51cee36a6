"""How numba compiles the functions of the kernel."""

from layernorm_roles.compiling import njit

FASTMATH = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered, products fused and divisions made reciprocals; NaN and infinity keep their meaning."""

STRICT = FASTMATH - {"reassoc", "arcp"}
"""What is left of `FASTMATH` for functions in which the order of the operations matters."""

IN_ONE = {"error_model": "numpy", "forceinline": True}
"""Options that compile a function into each function that calls it, so that one piece of machine code computes all.

Equal results need it: of a function that is not inlined, a process that compiles runs another copy, with other
roundings, than a process that loads `sweep` from numba's cache. numba passes the fastmath of a caller on to functions
without their own, so that also those would round differently.
"""

inlined = njit(fastmath=FASTMATH, **IN_ONE)
"""Compiles a function with `FASTMATH` into each function that calls it."""
