"""Slices of consecutive rows, for computations that take some rows at a time."""


def slices(n: int, size: int) -> list[slice]:
    """Consecutive slices that together cover n rows, each of `size` rows; the last may have fewer."""
    size = max(1, size)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
