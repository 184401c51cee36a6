"""Sequences with a clear majority, drawn from integer partitions.

The model sees no positions, so a sequence is stored as its vector of class counts: a partition of its length, and
a random choice of classes for the parts.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int, UInt8

from layernorm_roles import store
from layernorm_roles.majority.partitions import Partition, depth_first, uniform

DATA_STREAM = 0
"""Stream of the seed: `np.random.default_rng([seed, DATA_STREAM])` draws the data."""


class Sequences(NamedTuple):
    """Sequences as class counts, and the majority class of each."""

    counts: UInt8[np.ndarray, "sequences classes"]
    label: Int[np.ndarray, " sequences"]


def label_randomly(
    partitions: list[Partition], classes: int, labellings: int, rng: np.random.Generator
) -> Sequences:
    """`labellings` sequences of each partition, each with its own random assignment of classes to parts."""
    rows = len(partitions) * labellings
    by_rank = np.zeros((rows, classes), dtype=np.uint8)
    for number, partition in enumerate(partitions):
        by_rank[number * labellings : (number + 1) * labellings, : len(partition)] = partition
    permutation = rng.permuted(np.tile(np.arange(classes), (rows, 1)), axis=1)
    counts = np.empty_like(by_rank)
    np.put_along_axis(counts, permutation, by_rank, axis=1)
    return Sequences(counts, permutation[:, 0].astype(np.int64))


def choose_test_rows(
    label: Int[np.ndarray, " sequences"],
    labellings: int,
    split: str,
    share: float,
    rng: np.random.Generator,
) -> Bool[np.ndarray, " sequences"]:
    """Which sequences are for testing.

    `rows`, as released: any sequence, in the proportions of the labels; nearly every partition then has sequences
    on both sides. `partitions`: all sequences of a partition on one side.
    """
    if split == "partitions":
        groups = len(label) // labellings
        chosen = rng.permutation(groups) < round(groups * share)
        return np.repeat(chosen, labellings)
    shuffled = rng.permutation(len(label))
    by_label = shuffled[np.argsort(label[shuffled], kind="stable")]
    # Evenly spaced along the sorted labels: each label's share is exact to one row, the total exactly rounded.
    taken = np.diff(np.floor(np.arange(len(label) + 1) * share + 0.5)) > 0
    test = np.zeros(len(label), dtype=bool)
    test[by_label[taken]] = True
    return test


def partitions_needed(sequences: int, labellings: int) -> int:
    """As released: the first number of partitions that gives more than `sequences` sequences."""
    return sequences // labellings + 1


def generate(task: dict, seed: int) -> pd.DataFrame:
    """The data set of one seed, a `majority_data` table; `task` is an experiment of config.yaml's `majority`."""
    rng = np.random.default_rng([seed, DATA_STREAM])
    length, classes, gap = task["sequence_length"], task["classes"], task["gap"]
    draw = {"depth_first": depth_first, "uniform": uniform}[task["sampling"]]
    needed = partitions_needed(task["sequences"], task["labellings"])
    partitions = draw(length, classes, gap, needed, rng)
    counts, label = label_randomly(partitions, classes, task["labellings"], rng)
    test = choose_test_rows(label, task["labellings"], task["split"], task["test_share"], rng)
    return pd.DataFrame({"split": np.where(test, "test", "train"), "label": label, "counts": list(counts)})


def load(path: str) -> dict[str, Sequences]:
    """The data set at `path` as {"train": Sequences, "test": Sequences}."""
    table = store.read_arrow(path, "majority_data")
    counts = table["counts"].combine_chunks()
    label = table["label"].to_numpy()
    counts = counts.flatten().to_numpy().reshape(len(label), -1)
    split = table["split"].to_numpy()
    return {
        name: Sequences(np.ascontiguousarray(counts[split == name]), label[split == name])
        for name in ("train", "test")
    }
