"""Scalar product and vector-matrix product, which numba compiles into the functions that call them."""

from layernorm_roles.compiling import njit

# Sums may be taken in any order (SIMD); NaN and infinity keep their meaning, and none gets here. Always inlined: a
# process that compiles would else run another copy of these functions, with other roundings, than one that loads
# `find_certificates` from numba's cache.
sums = njit(fastmath={"reassoc", "contract"}, forceinline=True)


@sums
def dot(a, b):
    """The scalar product of two vectors of equal length."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@sums
def combine(v, A, m, columns, out):
    """Write the product v[:m] @ A[:m, :columns] of a vector and a matrix into out[:columns]."""
    # Row by row of A, so that products of every size run at memory speed.
    for b in range(columns):
        out[b] = 0.0
    for a in range(m):
        factor = v[a]
        for b in range(columns):
            out[b] += factor * A[a, b]
