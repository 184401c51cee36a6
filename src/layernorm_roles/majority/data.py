"""Sequences with a clear majority, drawn from integer partitions.

The model sees no positions, so a sequence is stored as its vector of class counts: a partition of its length, and
a random choice of classes for the parts. Partitions are drawn in the depth-first walk of the released code, or all
equally likely.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int, UInt8

from layernorm_roles import store
from layernorm_roles.partitions import Partition, admissible_partition, count_admissible
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.majority import MajorityData


class Sequences(NamedTuple):
    """Sequences of the majority task as class counts, each with its majority class."""

    counts: UInt8[np.ndarray, "sequences classes"]
    """How often each class occurs in a sequence."""
    label: Int[np.ndarray, " sequences"]
    """The class that occurs most often, which the model has to name at every token."""


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


DRAWS = {"depth_first": depth_first, "uniform": uniform}
"""The functions that draw partitions, by the names of the setting `sampling`."""


def generate(settings: MajorityData, seed: int) -> pd.DataFrame:
    """Draw the data set of one seed: a `majority_data` table with the columns split, label and counts."""
    rng = generator(Stream.MAJORITY_DATA, seed)
    partitions = DRAWS[settings.sampling](
        settings.sequence_length, settings.classes, settings.majority_gap, settings.partitions, rng
    )
    counts, label = label_randomly(partitions, settings.classes, settings.labellings, rng)
    if settings.split == "partitions":
        test = choose_test_partitions(len(partitions), settings.labellings, settings.test_share, rng)
    else:
        test = choose_test_rows(label, settings.test_share, rng)
    return pd.DataFrame({"split": np.where(test, "test", "train"), "label": label, "counts": list(counts)})


def write(plan: Mapping[str, Any], path: str | Path) -> None:
    """Draw the data set that a job's plan describes by its settings and its seed, and write it to `path`."""
    settings = MajorityData.model_validate(plan["settings"])
    about = provenance(plan, "cpu", Stream.MAJORITY_DATA)
    store.write(generate(settings, plan["seed"]), "majority_data", path, about)


def load(path: str | Path, identity: Mapping[str, Any] | None = None) -> dict[str, Sequences]:
    """Read the data set at `path` as {"train": Sequences, "test": Sequences}.

    Raises ValueError if the file is missing or damaged, or is of another job than the one whose plan is `identity`.
    """
    table = store.read_arrow(path, "majority_data", identity)
    counts = table["counts"].combine_chunks()
    label = table["label"].to_numpy()
    counts = counts.flatten().to_numpy().reshape(len(label), -1)
    split = table["split"].to_numpy()
    return {
        name: Sequences(np.ascontiguousarray(counts[split == name]), label[split == name])
        for name in ("train", "test")
    }


def label_randomly(
    partitions: list[Partition], classes: int, labellings: int, rng: np.random.Generator
) -> Sequences:
    """Make `labellings` sequences of each partition, with an independent random assignment of classes to parts.

    The sequences of a partition follow one another, in the order of `partitions`.
    """
    rows = len(partitions) * labellings
    by_rank = np.zeros((rows, classes), dtype=np.uint8)
    for number, partition in enumerate(partitions):
        by_rank[number * labellings : (number + 1) * labellings, : len(partition)] = partition
    permutation = rng.permuted(np.tile(np.arange(classes), (rows, 1)), axis=1)
    counts = np.empty_like(by_rank)
    np.put_along_axis(counts, permutation, by_rank, axis=1)
    return Sequences(counts, permutation[:, 0].astype(np.int64))


def choose_test_rows(
    label: Int[np.ndarray, " sequences"], share: float, rng: np.random.Generator
) -> Bool[np.ndarray, " sequences"]:
    """Choose test sequences one by one, in the proportions of the labels, as the released code does.

    Nearly every partition then has sequences on both sides.
    """
    shuffled = rng.permutation(len(label))
    by_label = shuffled[np.argsort(label[shuffled], kind="stable")]
    # Evenly spaced along the sorted labels: each label's share is exact to one row, the total exactly rounded.
    taken = np.diff(np.floor(np.arange(len(label) + 1) * share + 0.5)) > 0
    test = np.zeros(len(label), dtype=bool)
    test[by_label[taken]] = True
    return test


def choose_test_partitions(
    partitions: int, labellings: int, share: float, rng: np.random.Generator
) -> Bool[np.ndarray, " sequences"]:
    """Choose test sequences by whole partitions, so that all sequences of a partition are on one side."""
    chosen = rng.permutation(partitions) < round(partitions * share)
    return np.repeat(chosen, labellings)
