"""Data of the majority task: sequences of tokens in which one class of token is clearly the most frequent.

The model sees no positions, so a sequence is stored as its vector of class counts: a partition of the sequence length
into whole numbers, with classes assigned to these numbers at random.
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
    """Sequences of the majority task, each stored as its number of tokens of each class and its majority class."""

    counts: UInt8[np.ndarray, "sequences classes"]
    """The number of tokens of each class (column) in each sequence (row)."""
    label: Int[np.ndarray, " sequences"]
    """The majority class of each sequence, the most frequent one, which the model has to predict at every token."""


def uniform(
    length: int, classes: int, majority_gap: int, number: int, rng: np.random.Generator
) -> list[Partition]:
    """Draw `number` different admissible partitions of `length` at random; all such sets have equal probability."""
    admissible = count_admissible(length, classes, majority_gap)
    ranks = rng.choice(admissible, size=number, replace=False)
    return [admissible_partition(int(rank), length, classes, majority_gap) for rank in ranks]


def depth_first(
    length: int, classes: int, majority_gap: int, number: int, rng: np.random.Generator
) -> list[Partition]:
    """The first `number` admissible partitions of `length` in a random depth-first walk, as in Brody et al. (2023).

    An admissible partition writes `length` as a sum of 2 to `classes` positive whole numbers (parts), the largest of
    which exceeds the second largest by at least `majority_gap`. The walk chooses the smallest part first. As it stops
    early, most of the partitions have their smallest parts in common.
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
"""The functions that draw admissible partitions, by the values of the setting `sampling` in config.yaml."""


def generate(settings: MajorityData, seed: int) -> pd.DataFrame:
    """Draw the data set of the majority task as `settings` say: a table with columns split, label and counts."""
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
    """Write the majority task's data set, drawn with the settings and seed in `plan`, to the Parquet file `path`."""
    settings = MajorityData.model_validate(plan["settings"])
    about = provenance(plan, "cpu", Stream.MAJORITY_DATA)
    store.write(generate(settings, plan["seed"]), "majority_data", path, about)


def load(path: str | Path, made_from: str | None = None) -> dict[str, Sequences]:
    """Read the majority task's data set from the Parquet file `path` as {"train": Sequences, "test": Sequences}."""
    table = store.read_arrow(path, "majority_data", made_from)
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
    """Make `labellings` sequences of each partition of the sequence length, with classes assigned at random.

    Each part of the partition becomes the number of tokens of a randomly chosen class. The label is the class with the
    largest part, which is the first. The sequences are in the order of `partitions`.
    """
    padded = [partition + (0,) * (classes - len(partition)) for partition in partitions]
    by_rank = np.repeat(np.array(padded, dtype=np.uint8), labellings, axis=0)
    permutation = rng.permuted(np.tile(np.arange(classes), (len(by_rank), 1)), axis=1)
    counts = np.empty_like(by_rank)
    np.put_along_axis(counts, permutation, by_rank, axis=1)
    return Sequences(counts, permutation[:, 0].astype(np.int64))


def choose_test_rows(
    label: Int[np.ndarray, " sequences"], share: float, rng: np.random.Generator
) -> Bool[np.ndarray, " sequences"]:
    """A mask that is True for test sequences, which are chosen one by one, as Brody et al. (2023) do."""
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
    """A mask that is True for test sequences, which are all sequences of some randomly chosen partitions."""
    chosen = rng.permutation(partitions) < round(partitions * share)
    return np.repeat(chosen, labellings)
