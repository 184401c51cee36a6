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
DRAWS = ["depth_first", "uniform"]


def task(sampling="depth_first", split="rows", sequences=5000):
    return example(MajorityExperiment, **PAPER, sampling=sampling, split=split, sequences=sequences)


def arrays(frame):
    return np.stack(frame.counts), frame.label.to_numpy(), (frame.split == "test").to_numpy()


def shapes(counts):
    """The partitions of sequences: their counts without the names of the classes."""
    return [tuple(row) for row in np.sort(counts, axis=1)]


@pytest.mark.parametrize("sizes", [(12, 4, 2), (12, 12, 1), (9, 2, 7), (20, 6, 3)])
def test_partitions_are_drawn_without_omission_or_repeat(sizes):
    number = partitions.count_admissible(*sizes)
    every = sorted(partitions.admissible_partition(rank, *sizes) for rank in range(number))
    for draw in (data.depth_first, data.uniform):
        drawn = draw(*sizes, number, np.random.default_rng(0))
        assert sorted(drawn) == every and {type(part) for partition in drawn for part in partition} == {int}


def test_uniform_sampling_is_uniform_and_the_depth_first_walk_shares_its_smallest_parts():
    """The peculiarity of the released data that uniform sampling removes."""
    sizes = (16, 5, 2)
    number = partitions.count_admissible(*sizes)
    seeds = map(np.random.default_rng, range(40 * number))
    drawn = Counter(data.uniform(*sizes, 1, rng)[0] for rng in seeds)
    assert len(drawn) == number and stats.chisquare(list(drawn.values())).pvalue > 1e-4
    for draw, low, high in ((data.depth_first, 0.99, 1), (data.uniform, 0, 0.95)):
        found = draw(50, 20, 6, 2000, np.random.default_rng(0))
        assert low < np.mean([p[-1] == q[-1] for p, q in pairwise(found)]) < high


@pytest.mark.parametrize("drawn_by", DRAWS)
@pytest.mark.parametrize("split", ["rows", "partitions"])
def test_sequences_have_their_length_gap_and_label_and_their_side_of_the_split(drawn_by, split, drawn):
    """Each partition has ten sequences with random classes; by partitions none is on both sides, by rows most are."""
    counts, label, test = arrays(data.generate(task(drawn_by, split), seed=3))
    assert drawn == {Stream.MAJORITY_DATA.number: {3}}
    assert counts.shape == (5010, 20) and (counts.sum(axis=1) == 50).all()
    ordered = np.sort(counts, axis=1).astype(int)
    assert (ordered[:, -1] - ordered[:, -2] >= 6).all() and (counts.argmax(axis=1) == label).all()
    assert set(Counter(shapes(counts)).values()) == {10}, "no partition is drawn twice"
    assert len({tuple(row) for row in counts}) > 0.99 * len(counts)
    assert stats.chisquare(np.bincount(label, minlength=20)).pvalue > 1e-4
    shared, tested = {*shapes(counts[test])} & {*shapes(counts[~test])}, {*shapes(counts[test])}
    if split == "rows":
        share = np.bincount(label[test], minlength=20) / np.bincount(label, minlength=20)
        assert test.sum() == 1002 and abs(share - 0.2).max() < 0.005 and len(shared) > 0.8 * len(tested)
    else:
        assert abs(test.sum() - 1002) <= 10 and not shared


def test_a_file_keeps_each_sequence_on_its_side_and_says_what_made_it(tmp_path):
    settings, path = task(sequences=300), tmp_path / "data.parquet"
    plan = {"job": "majority_data/small/seed_3", "settings": settings.of_data(), "seed": 3}
    data.write(plan, path)
    frame, origin = data.generate(settings, 3), store.read_provenance(path)
    pd.testing.assert_frame_equal(store.read(path, "majority_data"), frame)
    assert origin["seed_rule"] == Stream.MAJORITY_DATA.sentence and json.loads(origin["config"]) == plan
    counts, label, test = arrays(frame)
    assert 0 < test.sum() < len(test)
    for name, rows in (("train", ~test), ("test", test)):
        for found, expected in zip(data.load(path)[name], (counts[rows], label[rows]), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("number,share,expected", [(501, 0.2, 100), (7, 0.5, 4), (10, 0.17, 2), (9, 0.4, 4)])
def test_the_number_of_test_partitions_or_rows_is_the_nearest(number, share, expected):
    rng = np.random.default_rng(0)
    test = data.choose_test_partitions(number, 3, share, rng)
    assert test.sum() == 3 * expected and (test.reshape(-1, 3).sum(axis=1) % 3 == 0).all()
    assert data.choose_test_rows(rng.integers(4, size=number), share, rng).sum() == expected
