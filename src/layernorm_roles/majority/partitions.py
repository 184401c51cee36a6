"""Partitions of the sequence length: what a sequence is, up to order and the names of the classes.

A partition of L is admissible if it has 2 to `classes` parts and its largest part leads the second by at least
`gap`. Brody et al. 2023 draw from them in a depth-first walk that stops early; `depth_first` does the same with a
seed, `uniform` draws evenly from all of them.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

Partition = tuple[int, ...]
"""Parts in falling order."""


@cache
def count_partitions(n: int, parts: int, largest: int) -> int:
    """Number of partitions of n into at most `parts` parts, none above `largest`."""
    if n == 0:
        return 1
    if parts == 0:
        return 0
    return sum(count_partitions(n - part, parts - 1, part) for part in range(1, min(n, largest) + 1))


def count_admissible(length: int, classes: int, gap: int) -> int:
    """Number of admissible partitions; 69,413 at the paper's length 50, 20 classes, gap 6."""
    return sum(number for _, number in _by_majority(length, classes, gap))


def _by_majority(length: int, classes: int, gap: int) -> Iterator[tuple[int, int]]:
    """(majority count, number of admissible partitions with it)."""
    for majority in range(gap + 1, length):
        yield majority, count_partitions(length - majority, classes - 1, majority - gap)


def uniform(length: int, classes: int, gap: int, number: int, rng: np.random.Generator) -> list[Partition]:
    """`number` different admissible partitions, every set of that size equally likely."""
    ranks = rng.choice(count_admissible(length, classes, gap), size=number, replace=False)
    return [_unrank(int(rank), length, classes, gap) for rank in ranks]


def _unrank(rank: int, length: int, classes: int, gap: int) -> Partition:
    """The admissible partition with number `rank`, parts in falling order."""
    for majority, number in _by_majority(length, classes, gap):  # noqa: B007, used after the loop
        if rank < number:
            break
        rank -= number
    partition, rest, largest = [majority], length - majority, majority - gap
    while rest:
        for part in range(1, min(rest, largest) + 1):
            number = count_partitions(rest - part, classes - len(partition) - 1, part)
            if rank < number:
                break
            rank -= number
        partition.append(part)
        rest, largest = rest - part, part
    return tuple(partition)


def depth_first(
    length: int, classes: int, gap: int, number: int, rng: np.random.Generator
) -> list[Partition]:
    """The first `number` admissible partitions of a depth-first walk over all partitions, as in the released code.

    Parts rise from the smallest; at every node the next part is tried in random order. Because the walk stops
    early, most partitions found share their smallest parts.
    """

    def walk(rest: int, smallest: int, parts: int) -> Iterator[Partition]:
        if rest == 0:
            yield ()
        elif parts == 1:
            yield (rest,)
        else:
            # A part that leaves less than itself leads nowhere, unless it takes all.
            for part in rng.permutation([*range(smallest, rest // 2 + 1), rest]):
                for others in walk(rest - part, part, parts - 1):
                    yield (int(part), *others)

    found = []
    for rising in walk(length, 1, classes):
        if len(rising) >= 2 and rising[-1] - rising[-2] >= gap:
            found.append(rising[::-1])
            if len(found) == number:
                break
    return found
