"""Slices of consecutive rows, for computations that take a part of their rows at a time."""


def slices(n: int, size: int) -> list[slice]:
    """Slices of n rows, `size` in each but the last, or one in each where `size` is less."""
    size = max(1, size)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
