"""Partitions of the sequence length, which sequences of the majority task are up to order and the names of classes.

A partition of L is admissible if it has 2 to `classes` parts and its largest part, the count of the majority class,
leads the second largest by at least `majority_gap` (Brody et al. 2023, section 3). Every admissible partition has a
number, its rank, between 0 and `count_admissible` - 1.

This module imports no arrays: settings count partitions before anything is computed.
"""

from collections.abc import Iterator
from functools import cache

Partition = tuple[int, ...]
"""Parts in falling order; they are the counts of the classes that a sequence contains."""


@cache
def count_partitions(total: int, parts: int, largest: int) -> int:
    """The number of partitions of `total` into at most `parts` parts, none above `largest`."""
    if total == 0:
        return 1
    if parts == 0:
        return 0
    return sum(count_partitions(total - part, parts - 1, part) for part in range(1, min(total, largest) + 1))


def count_admissible(length: int, classes: int, majority_gap: int) -> int:
    """The number of admissible partitions of `length`; 69,413 for the paper's length 50, 20 classes and gap of 6."""
    return sum(number for _, number in _by_majority(length, classes, majority_gap))


def admissible_partition(rank: int, length: int, classes: int, majority_gap: int) -> Partition:
    """The admissible partition of `length` whose rank is `rank`.

    Ranks follow the largest part, among partitions that agree in it the second largest, and so on. `rank` must be at
    least 0 and below `count_admissible`.
    """
    for majority, number in _by_majority(length, classes, majority_gap):  # noqa: B007, used after the loop
        if rank < number:
            break
        rank -= number
    partition, rest, largest = [majority], length - majority, majority - majority_gap
    while rest:
        for part in range(1, min(rest, largest) + 1):
            number = count_partitions(rest - part, classes - len(partition) - 1, part)
            if rank < number:
                break
            rank -= number
        partition.append(part)
        rest, largest = rest - part, part
    return tuple(partition)


def _by_majority(length: int, classes: int, majority_gap: int) -> Iterator[tuple[int, int]]:
    """Yield (largest part, number of admissible partitions with it)."""
    for majority in range(majority_gap + 1, length):
        yield majority, count_partitions(length - majority, classes - 1, majority - majority_gap)
