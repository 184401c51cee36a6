"""Slices of consecutive rows, for computations that take some rows at a time."""


def slices(n: int, size: int) -> list[slice]:
    """Consecutive slices of n rows with `size` rows each, at least one; the last may have fewer."""
    size = max(1, size)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
