"""Partitions of small numbers against a list of all."""

from itertools import combinations_with_replacement

import pytest

from layernorm_roles.partitions import admissible_partition, count_admissible


@pytest.mark.parametrize("sizes", [(12, 4, 2), (7, 7, 1), (9, 2, 7), (15, 3, 4)])
def test_partitions_are_counted_and_numbered_from_the_smallest_majority_on(sizes):
    length, classes, gap = sizes
    parts = (
        each for n in range(2, classes + 1) for each in combinations_with_replacement(range(length, 0, -1), n)
    )
    expected = sorted(each for each in parts if sum(each) == length and each[0] - each[1] >= gap)
    assert count_admissible(*sizes) == len(expected)
    assert [admissible_partition(rank, *sizes) for rank in range(len(expected))] == expected
    assert count_admissible(50, 20, 6) == 69_413
