"""Integer partitions of the sequence length, whose parts are the counts of classes in a sequence of the majority task.

A partition is admissible if it has 2 to `classes` parts and its largest, the count of the majority class, exceeds the
second by at least `majority_gap` (Brody et al. 2023, section 3). Checks of settings use it, so it imports no numpy.
"""

from collections.abc import Iterator
from functools import cache

Partition = tuple[int, ...]
"""The parts of a partition, in falling order; they are the counts of the classes that a sequence contains."""


@cache
def count_partitions(total: int, parts: int, largest: int) -> int:
    """The number of ways to write `total` as a sum of at most `parts` positive integers, none above `largest`.

    Sums that differ only in the order of their terms count once.
    """
    if total == 0:
        return 1
    if parts == 0:
        return 0
    return sum(count_partitions(total - part, parts - 1, part) for part in range(1, min(total, largest) + 1))


def count_admissible(length: int, classes: int, majority_gap: int) -> int:
    """The number of admissible partitions of the `length` tokens of a sequence into counts of classes.

    A partition is admissible if it has 2 to `classes` parts and the largest part is at least `majority_gap` above the
    second. There are 69,413 for length 50, 20 classes and gap 6, as in the paper.
    """
    return sum(number for _, number in _by_majority(length, classes, majority_gap))


def admissible_partition(rank: int, length: int, classes: int, majority_gap: int) -> Partition:
    """The parts, largest first, of the admissible partition of the integer `length` with index `rank`, from 0.

    A partition is admissible if it has 2 to `classes` parts and the largest part is at least `majority_gap` above the
    second. Partitions are in ascending order of the largest part, then of the second largest, and so on. `rank` must be
    below the number that `count_admissible` gives.
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
    """For each possible largest part, yield it and the number of admissible partitions that have it."""
    for majority in range(majority_gap + 1, length):
        yield majority, count_partitions(length - majority, classes - 1, majority - majority_gap)
