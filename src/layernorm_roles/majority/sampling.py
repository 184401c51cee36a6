"""How admissible partitions are drawn: in the depth-first walk of the released code, or all equally likely."""

from collections.abc import Iterator

import numpy as np

from layernorm_roles.partitions import Partition, admissible_partition, count_admissible


def uniform(
    length: int, classes: int, majority_gap: int, number: int, rng: np.random.Generator
) -> list[Partition]:
    """Draw `number` different admissible partitions, every set of that size equally likely."""
    admissible = count_admissible(length, classes, majority_gap)
    ranks = rng.choice(admissible, size=number, replace=False)
    return [admissible_partition(int(rank), length, classes, majority_gap) for rank in ranks]


def depth_first(
    length: int, classes: int, majority_gap: int, number: int, rng: np.random.Generator
) -> list[Partition]:
    """The first `number` admissible partitions of a depth-first walk over all partitions, as in the released code.

    Parts rise from the smallest; at every node of the walk the next part is tried in random order. Because the walk
    stops early, most of the partitions that it finds share their smallest parts. Fewer than `number` come back if no
    more exist.
    """

    def walk(rest: int, smallest: int, parts: int) -> Iterator[Partition]:
        if rest == 0:
            yield ()
        elif parts == 1:
            yield (rest,)
        else:
            # A part that leaves less than itself leads nowhere, unless it takes all.
            for part in rng.permutation([*range(smallest, rest // 2 + 1), rest]).tolist():
                for larger in walk(rest - part, part, parts - 1):
                    yield (part, *larger)

    partitions: list[Partition] = []
    for rising in walk(length, 1, classes):
        if len(rising) >= 2 and rising[-1] - rising[-2] >= majority_gap:
            partitions.append(rising[::-1])
            if len(partitions) == number:
                break
    return partitions
