"""The counting of admissible partitions against a plain recursion, and the paper's number."""

import pytest

from layernorm_roles import partitions


def listed(length, classes, majority_gap):

    def falling(rest, largest):
        if rest == 0:
            yield ()
        for part in range(min(rest, largest), 0, -1):
            for others in falling(rest - part, part):
                yield (part, *others)

    return [p for p in falling(length, length) if 2 <= len(p) <= classes and p[0] - p[1] >= majority_gap]


def test_the_papers_task_has_69413_admissible_partitions():
    assert partitions.count_admissible(50, 20, 6) == 69_413


@pytest.mark.parametrize("task", [(12, 4, 2), (12, 12, 1), (15, 3, 6), (9, 2, 7), (20, 6, 3)])
def test_partitions_are_counted_and_numbered_without_omission_or_repeat(task):
    expected = listed(*task)
    assert partitions.count_admissible(*task) == len(expected)
    numbered = [partitions.admissible_partition(rank, *task) for rank in range(len(expected))]
    assert sorted(numbered) == sorted(expected)
    assert [p[0] for p in numbered] == sorted(p[0] for p in numbered)
