"""Every random stream of the project, a sequence of random numbers for one purpose: its number and what it draws.

`generator(Stream.RANDOM_KEYS, seed, n, d)` gives the generator of a stream for one seed and setting. Its SeedSequence
has the seed as entropy, and as spawn key the stream's number and the other integers, so that no two streams share
draws. Parameters of models and dropout come from torch's own generator, seeded by `seed_torch`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Snakemake reads the sentences while it plans, and draws nothing
    import numpy as np


class Stream(Enum):
    """A random stream: a source of random numbers with one purpose, such as the order of training batches."""

    MAJORITY_DATA = (0, ("seed",), "partitions, labels and the test split of the majority task")
    MAJORITY_BATCHES = (1, ("seed",), "order of the majority task's training batches")
    RANDOM_KEYS = (2, ("seed", "n", "d"), "Gaussian matrices of keys, equal for every norm")
    TEXT_SELECTION = (
        3,
        ("seed", "texts"),
        "choice of the contexts whose keys are tested, with the seed first_seed, long (0) or sentences (1)",
    )
    LANGUAGE_MODEL_BATCHES = (4, ("seed", "epoch"), "order and offset of GPT's training windows")
    MASKED_BATCHES = (5, ("seed", "step"), "places and masks of BERT's training windows")
    LABELLED_BATCHES = (6, ("seed", "epoch"), "order of BERT's labelled training sentences")
    MASKED_VALIDATION = (
        7,
        ("seed",),
        "places and masks of BERT's validation windows, with the seed first_seed",
    )
    GEOMETRY = (8, ("seed", "n"), "gain, bias and inputs of the geometry of LayerNorm")
    GEOMETRY_CLOUD = (9, ("seed",), "the drawn cloud in three dimensions")
    FUSION = (10, ("seed", "d"), "weights and activations of random attention blocks")
    PLACEMENT_BATCHES = (11, ("seed",), "training windows of pre-norm and post-norm models")
    BATCH_DEPENDENCE = (12, ("seed", "batch_size"), "sequences for LayerNorm and BatchNorm")
    SCORE_SCALE = (13, ("seed", "d_k"), "queries and keys of random attention heads")
    POSITION_PROBE = (14, ("seed",), "windows on which positions are read off the residual stream")
    RANDOM_DIRECTION = (
        15,
        ("context", "d"),
        "directions in place of the ones vector, for the means of norms' inputs",
    )

    def __init__(self, number: int, integers: tuple[str, ...], draws: str):
        self.number, self.integers, self.draws = number, integers, draws

    @property
    def sentence(self) -> str:
        """A text for the metadata of files: what the stream draws, and which call makes its generator."""
        key = ", ".join(self.integers)
        return f"{self.draws}: random_streams.generator(Stream.{self.name}{key and ', '}{key})"


TORCH = "parameters and dropout: torch.manual_seed(seed)"
"""The text in the metadata of files that says what torch's own generator draws and how it is seeded."""

NOTHING_RANDOM = "nothing is random"
"""The text in the metadata of a file whose numbers depend on no random generator."""


def generator(stream: Stream, *integers: int) -> np.random.Generator:
    """Make the numpy random generator of `stream` for the integers that `stream.integers` names, such as a seed."""
    import numpy as np

    if len(integers) != len(stream.integers):
        raise TypeError(f"{stream} takes {stream.integers}: got {integers}")
    seed, *key = integers
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream.number, *key)))


def seed_torch(seed: int) -> None:
    """Seed torch's own random generators, from which the initial parameters of models and dropout are drawn."""
    import torch

    torch.manual_seed(seed)


def describe(streams: tuple[Stream, ...], torch: bool = False) -> str:
    """A text for the metadata of a file, which says how to make the random generators that its numbers come from."""
    return "; ".join([stream.sentence for stream in streams] + [TORCH] * torch) or NOTHING_RANDOM
