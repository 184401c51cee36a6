"""Sequences with a clear majority, drawn from integer partitions.

A sequence of L tokens is, up to order and the names of the classes, a partition of L: the multiset of its class
counts. The model sees no positions, so a sequence is stored as its vector of counts. A partition is admissible if
it has 2 to `classes` parts and its largest part leads the second by at least `gap`.

Brody et al. 2023 draw from the partitions in a depth-first walk that stops early; `sampling="depth_first"` does
the same with a seed, `sampling="uniform"` draws evenly from all of them.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int, UInt8

from layernorm_roles import store

DATA_STREAM = 0
"""Stream of the seed: `np.random.default_rng([seed, DATA_STREAM])` draws the data."""

Partition = tuple[int, ...]


class Sequences(NamedTuple):
    """Sequences as class counts, and the majority class of each."""

    counts: UInt8[np.ndarray, "sequences classes"]
    label: Int[np.ndarray, " sequences"]


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
