"""Compiled search for duplicate keys: keys that equal another key to the last bit."""

import numpy as np

from layernorm_roles.compiling import cached_njit, njit


@cached_njit(nogil=True)
def equal_rows(bits, before):
    """For every row of the matrices bits (m, n, d) another row that equals it, or -1.

    `bits` are the unsigned words that hold floating-point numbers, among which minus zero equals zero. If `before`,
    only rows with a smaller number count. Returns an array (m, n) of the rows' numbers.
    """
    matrices, n, _ = bits.shape
    twin = np.full((matrices, n), -1)
    for a in range(matrices):
        order, hashes = _by_hash(bits[a])
        start = 0
        for stop in range(1, n + 1):
            if stop == n or hashes[order[stop]] != hashes[order[start]]:
                if stop - start > 1:
                    _pair_up(bits[a], order[start:stop], before, twin[a])
                start = stop
    return twin


@njit
def _word(bits, i, c):
    """An entry of `bits`; 0 for minus zero, of which the first bit alone is 1."""
    word = np.uint64(bits[i, c])
    return np.uint64(0) if word == np.uint64(1) << np.uint64(8 * bits.itemsize - 1) else word


@njit
def _by_hash(bits):
    """Rows in the order of their hashes, and the hash of every row (FNV-1a, on words)."""
    hashes = np.empty(len(bits), np.uint64)
    for i in range(len(bits)):
        value = np.uint64(14695981039346656037)
        for c in range(bits.shape[1]):
            value = (value ^ _word(bits, i, c)) * np.uint64(1099511628211)
            value ^= value >> np.uint64(29)
        hashes[i] = value
    return np.argsort(hashes), hashes


@njit
def _equal(bits, i, j):
    for c in range(bits.shape[1]):
        if _word(bits, i, c) != _word(bits, j, c):
            return False
    return True


@njit
def _pair_up(bits, rows, before, twin):
    """Of each of `rows`, whose hashes agree, enter in `twin` the first other one that is equal."""
    for i in rows:
        for j in rows:
            if (j < i if before else j != i) and _equal(bits, i, j):
                twin[i] = j
                break
