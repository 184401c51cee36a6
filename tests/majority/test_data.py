from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from layernorm_roles.majority import data, partitions

TASK = {
    "sequence_length": 50,
    "classes": 20,
    "gap": 6,
    "sequences": 5000,
    "labellings": 10,
    "sampling": "depth_first",
    "split": "rows",
    "test_share": 0.2,
}


def arrays(frame):
    return np.stack(frame.counts), frame.label.to_numpy(), (frame.split == "test").to_numpy()


def listed(length, classes, gap):
    """All admissible partitions, by a recursion of its own."""

    def falling(rest, largest):
        if rest == 0:
            yield ()
        for part in range(min(rest, largest), 0, -1):
            for others in falling(rest - part, part):
                yield (part, *others)

    return [p for p in falling(length, length) if 2 <= len(p) <= classes and p[0] - p[1] >= gap]


def test_the_papers_task_has_69413_admissible_partitions():
    assert partitions.count_admissible(50, 20, 6) == 69_413


@pytest.mark.parametrize("task", [(12, 4, 2), (12, 12, 1), (15, 3, 6), (9, 2, 7), (20, 6, 3)])
def test_partitions_are_counted_and_numbered_without_gap_or_repeat(task):
    expected = listed(*task)
    assert partitions.count_admissible(*task) == len(expected)
    assert sorted(partitions._unrank(rank, *task) for rank in range(len(expected))) == sorted(expected)
    walked = partitions.depth_first(*task, len(expected), np.random.default_rng(0))
    assert sorted(walked) == sorted(expected)


def test_uniform_sampling_is_uniform():
    task = (16, 5, 2)
    expected = listed(*task)
    drawn = Counter(
        partitions.uniform(*task, 1, np.random.default_rng(i))[0] for i in range(40 * len(expected))
    )
    assert stats.chisquare([drawn[p] for p in expected]).pvalue > 1e-4


@pytest.mark.parametrize("sampling", ["depth_first", "uniform"])
@pytest.mark.parametrize("split", ["rows", "partitions"])
def test_sequences_have_the_length_the_gap_and_their_label(sampling, split):
    counts, label, test = arrays(data.generate(TASK | {"sampling": sampling, "split": split}, seed=3))
    assert counts.shape == (5010, 20)
    assert (counts.sum(axis=1) == 50).all()
    ordered = np.sort(counts, axis=1).astype(int)
    assert (ordered[:, -1] - ordered[:, -2] >= 6).all()
    assert (counts.argmax(axis=1) == label).all()
    assert test.sum() == 1002 if split == "rows" else abs(test.sum() - 1002) <= 10


def test_the_released_sizes():
    frame = data.generate(TASK | {"sequences": 100_000}, seed=0)
    assert frame.split.value_counts().to_dict() == {"train": 80_008, "test": 20_002}


def test_rows_split_in_the_proportions_of_the_labels():
    _, label, test = arrays(data.generate(TASK, seed=1))
    share = np.bincount(label[test], minlength=20) / np.bincount(label, minlength=20)
    assert abs(share - 0.2).max() < 0.005


def test_no_partition_is_in_both_when_split_by_partitions():
    def shapes(rows):
        return {tuple(row) for row in np.sort(rows, axis=1)}

    for sampling in ("depth_first", "uniform"):
        by_partition = TASK | {"sampling": sampling, "split": "partitions"}
        counts, _, test = arrays(data.generate(by_partition, seed=2))
        assert not shapes(counts[test]) & shapes(counts[~test])
    counts, _, test = arrays(data.generate(TASK, seed=2))
    assert len(shapes(counts[test]) & shapes(counts[~test])) > 0.8 * len(shapes(counts[test]))


def test_depth_first_walk_shares_its_smallest_parts():
    """The peculiarity of the released data that uniform sampling removes."""

    def shared(drawn):
        return np.mean([p[-1] == q[-1] for p, q in pairwise(drawn)])

    rng = np.random.default_rng(0)
    assert shared(partitions.depth_first(50, 20, 6, 2000, rng)) > 0.99
    assert shared(partitions.uniform(50, 20, 6, 2000, rng)) < 0.95


def test_a_seed_gives_the_same_data_and_another_seed_others():
    first, again, other = (data.generate(TASK, seed) for seed in (5, 5, 6))
    assert np.array_equal(np.stack(first.counts), np.stack(again.counts))
    assert not np.array_equal(np.stack(first.counts), np.stack(other.counts))
