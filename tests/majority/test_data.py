"""The drawn sequences: their partitions, labels and split, and the file they are kept in."""

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from default_settings import example
from scipy import stats

from layernorm_roles import partitions, store
from layernorm_roles.majority import data
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.majority import MajorityExperiment

PAPER = {"sequence_length": 50, "classes": 20, "majority_gap": 6, "labellings": 10, "test_share": 0.2}
RELEASED = {"sampling": "depth_first", "split": "rows"}


def task(**changes):
    return example(MajorityExperiment, **{**PAPER, **RELEASED, "sequences": 5000, **changes})


def arrays(frame):
    return np.stack(frame.counts), frame.label.to_numpy(), (frame.split == "test").to_numpy()


def shapes(counts):
    """The partitions of sequences: their counts without the names of the classes."""
    return [tuple(row) for row in np.sort(counts, axis=1)]


@pytest.mark.parametrize("draw", [data.depth_first, data.uniform])
@pytest.mark.parametrize("sizes", [(12, 4, 2), (12, 12, 1), (9, 2, 7), (20, 6, 3)])
def test_drawing_as_many_as_there_are_gives_every_partition_once(draw, sizes):
    number = partitions.count_admissible(*sizes)
    drawn = draw(*sizes, number, np.random.default_rng(0))
    assert sorted(drawn) == sorted(partitions.admissible_partition(rank, *sizes) for rank in range(number))
    assert {type(part) for partition in drawn for part in partition} == {int}


def test_uniform_sampling_is_uniform():
    sizes = (16, 5, 2)
    number = partitions.count_admissible(*sizes)
    drawn = Counter(data.uniform(*sizes, 1, np.random.default_rng(seed))[0] for seed in range(40 * number))
    assert len(drawn) == number
    assert stats.chisquare(list(drawn.values())).pvalue > 1e-4


def test_depth_first_walk_shares_its_smallest_parts():
    """The peculiarity of the released data that uniform sampling removes."""

    def shared(drawn):
        return np.mean([p[-1] == q[-1] for p, q in pairwise(drawn)])

    rng = np.random.default_rng(0)
    assert shared(data.depth_first(50, 20, 6, 2000, rng)) > 0.99
    assert shared(data.uniform(50, 20, 6, 2000, rng)) < 0.95


@pytest.mark.parametrize("drawn_by", ["depth_first", "uniform"])
@pytest.mark.parametrize("split", ["rows", "partitions"])
def test_sequences_have_the_length_the_gap_and_their_label(drawn_by, split):
    counts, label, test = arrays(data.generate(task(sampling=drawn_by, split=split), seed=3))
    assert counts.shape == (5010, 20)
    assert (counts.sum(axis=1) == 50).all()
    ordered = np.sort(counts, axis=1).astype(int)
    assert (ordered[:, -1] - ordered[:, -2] >= 6).all()
    assert (counts.argmax(axis=1) == label).all()
    assert test.sum() == 1002 if split == "rows" else abs(test.sum() - 1002) <= 10


@pytest.mark.parametrize("drawn_by", ["depth_first", "uniform"])
def test_every_drawn_partition_has_so_many_sequences_with_random_classes(drawn_by):
    counts, label, _ = arrays(data.generate(task(sampling=drawn_by), seed=4))
    assert set(Counter(shapes(counts)).values()) == {10}, "no partition is drawn twice"
    assert len({tuple(row) for row in counts}) > 0.99 * len(counts)
    assert stats.chisquare(np.bincount(label, minlength=20)).pvalue > 1e-4


def test_rows_split_in_the_proportions_of_the_labels():
    _, label, test = arrays(data.generate(task(), seed=1))
    share = np.bincount(label[test], minlength=20) / np.bincount(label, minlength=20)
    assert abs(share - 0.2).max() < 0.005


def test_no_partition_is_in_both_when_split_by_partitions():
    for drawn_by in ("depth_first", "uniform"):
        counts, _, test = arrays(data.generate(task(sampling=drawn_by, split="partitions"), seed=2))
        assert not {*shapes(counts[test])} & {*shapes(counts[~test])}
    counts, _, test = arrays(data.generate(task(), seed=2))
    shared = {*shapes(counts[test])} & {*shapes(counts[~test])}
    assert len(shared) > 0.8 * len({*shapes(counts[test])})


def test_a_file_keeps_each_sequence_on_its_side(tmp_path):
    split, label = ["test", "train", "train", "test", "train"], [2, 0, 1, 2, 0]
    counts = [[0, 1, 3], [4, 0, 0], [1, 3, 0], [1, 0, 3], [2, 1, 1]]
    frame = pd.DataFrame({"split": split, "label": label, "counts": counts})
    store.write(frame, "majority_data", tmp_path / "data.parquet", {})
    sets = data.load(tmp_path / "data.parquet")
    assert sets["train"].counts.tolist() == [[4, 0, 0], [1, 3, 0], [2, 1, 1]]
    assert sets["train"].label.tolist() == [0, 1, 0]
    assert sets["test"].counts.tolist() == [[0, 1, 3], [1, 0, 3]]
    assert sets["test"].label.tolist() == [2, 2]


def test_a_data_set_is_written_with_the_plan_and_the_stream_that_make_it(tmp_path):
    settings, path = task(sequences=300), tmp_path / "data.parquet"
    plan = {"job": "majority_data/small/seed_3", "settings": settings.of_data(), "seed": 3}
    data.write(plan, path)
    pd.testing.assert_frame_equal(store.read(path, "majority_data"), data.generate(settings, 3))
    origin = store.read_provenance(path)
    assert origin["seed_rule"] == Stream.MAJORITY_DATA.sentence and json.loads(origin["config"]) == plan


@pytest.mark.parametrize(
    ("number", "share", "expected"), [(501, 0.2, 100), (7, 0.5, 4), (10, 0.17, 2), (9, 0.4, 4)]
)
def test_the_number_of_test_partitions_or_rows_is_the_nearest(number, share, expected):
    rng = np.random.default_rng(0)
    test = data.choose_test_partitions(number, 3, share, rng)
    assert test.sum() == 3 * expected and (test.reshape(-1, 3).sum(axis=1) % 3 == 0).all()
    assert data.choose_test_rows(rng.integers(4, size=number), share, rng).sum() == expected
