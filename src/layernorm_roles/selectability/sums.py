"""Sums over the entries of vectors, compiled into the functions that take them."""

from layernorm_roles.compiling import njit

# Sums may be taken in any order (SIMD); NaN and infinity keep their meaning, and none gets here. Always inlined: a
# process that compiles would else run another copy of these functions, with other roundings, than one that loads
# `find_certificates` from numba's cache.
sums = njit(fastmath={"reassoc", "contract"}, forceinline=True)


@sums
def dot(a, b):
    """The scalar product of two vectors."""
    total = 0.0
    for k in range(len(a)):
        total += a[k] * b[k]
    return total


@sums
def combine(v, A, m, columns, out):
    """out = v[:m] @ A[:m, :columns], row by row, so that small and large corrals both run at memory speed."""
    for b in range(columns):
        out[b] = 0.0
    for a in range(m):
        factor = v[a]
        for b in range(columns):
            out[b] += factor * A[a, b]
