"""Settings of the majority task (Figures 1a, 1b, 2 and 3 of the paper)."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from layernorm_roles.partitions import count_admissible
from layernorm_roles.settings.base import (
    Distinct,
    Integer,
    LearningRate,
    Number,
    Real,
    RunsPerJob,
    Section,
    Seeds,
    Steps,
    misfit_error,
    one_or_several,
)

LOGARITHMIC = "logarithmic"
"""The value of `evaluate_every` with which the time between two evaluations grows with the steps taken."""


Width = Annotated[Integer, Field(ge=2, le=1024)]
"""A number of coordinates of the residual stream."""


class MajorityData(Section):
    """What the sequences of a majority experiment depend on, beside the seed."""

    sequence_length: Annotated[Integer, Field(ge=3, le=255)]
    """Tokens in a sequence."""
    classes: Annotated[Integer, Field(ge=2, le=255)]
    """Different tokens; the paper has 20, and 10 in three dimensions."""
    majority_gap: Annotated[Integer, Field(ge=1, le=255)]
    """Number of tokens by which the majority class leads the second most frequent class, at least."""
    sequences: Annotated[Integer, Field(ge=10, le=100_000_000)]
    """Sequences for training and testing together."""
    labellings: Number
    """Sequences drawn from one partition of the sequence length, each with another random assignment of classes."""
    sampling: Literal["depth_first", "uniform"]
    """depth_first: partitions in the order of the released code's walk; uniform: every partition equally likely."""
    split: Literal["rows", "partitions"]
    """rows: sequences of one partition are in training and test, as released; partitions: in one of the two only."""
    test_share: Annotated[Real, Field(gt=0, lt=1)]
    """Share of the sequences that are kept for testing."""

    @model_validator(mode="after")
    def _both_sets_have_sequences(self):
        length, gap = self.sequence_length, self.majority_gap
        if gap > length - 2:
            # The smallest rival has one token, so the majority leads by at most length - 2.
            raise misfit_error("majority_gap", gap, f"at most sequence_length - 2 = {length - 2}")
        if self.classes > length:
            raise misfit_error("classes", self.classes, f"at most sequence_length = {length}")
        known = count_admissible(length, self.classes, gap)
        if self.partitions > known:
            each = f"at most labellings = {self.labellings} for each of"
            raise misfit_error("sequences", self.sequences, f"{each} the {known:,} admissible partitions")
        groups = self.partitions if self.split == "partitions" else self.partitions * self.labellings
        if min(self.test_share, 1 - self.test_share) * groups < 1:
            expected = f"a share that puts at least one of the {groups:,} {self.split} into each of both sets"
            raise misfit_error("test_share", self.test_share, expected)
        return self

    @property
    def partitions(self) -> int:
        """Partitions to draw: as released, the first number that gives more than `sequences` sequences."""
        return self.sequences // self.labellings + 1

    def of_data(self) -> dict[str, Any]:
        """The keys of `MajorityData` with their values, as dictionaries and lists of plain values."""
        return self.model_dump(mode="json", include={*MajorityData.model_fields})


class MajorityTraining(MajorityData):
    """What a run of a majority experiment depends on, beside variant, seed, d_model and learning rate."""

    d_ff: Annotated[Integer, Field(ge=1, le=4096)] | None
    """Hidden units of the feed-forward part; null: as many as d_model."""
    batch_size: Annotated[Integer, Field(ge=1, le=10_000_000)]
    """Sequences in a training batch; the last batch of an epoch is what remains."""
    steps: Steps
    """Optimiser steps of a run."""
    schedule_steps: Annotated[Integer, Field(ge=1, le=1_000_000_000)]
    """Optimiser step at which the learning rate, which falls linearly, reaches 0."""
    evaluate_every: Steps | Literal["logarithmic"]
    """Optimiser steps between two rows of majority_metrics; or logarithmic: ten rows from any step to its tenfold."""
    checkpoint_every: Steps
    """Optimiser steps between two checkpoints, from which a killed run goes on."""

    @model_validator(mode="after")
    def _schedule_covers_the_steps(self):
        if self.steps > self.schedule_steps:
            expected = f"at most schedule_steps = {self.schedule_steps}, where the learning rate is 0"
            raise misfit_error("steps", self.steps, expected)
        return self

    def of_training(self) -> dict[str, Any]:
        """The keys of `MajorityTraining` with their values, as dictionaries and lists of plain values."""
        return self.model_dump(mode="json", include={*MajorityTraining.model_fields})


class MajorityExperiment(MajorityTraining):
    """One experiment of the majority task: which class is the most frequent of a sequence?

    It has a run for every combination of a d_model, a learning rate, a variant and a seed.
    """

    d_model: Annotated[Distinct[Width], one_or_several(Width)]
    """Size of the residual stream; there is one attention head of this size. A list trains every variant with each."""
    learning_rate: Annotated[Distinct[LearningRate], one_or_several(LearningRate)]
    """Adam's learning rate at the first step. A list trains every variant with each."""
    runs_per_job: RunsPerJob
    """Runs of the experiment that one process trains in turn and writes to one set of files; all: every run. More than
    1 suits runs that take less time than a process takes to start. A run that joins a batch trains all of it again."""
    seeds: Seeds
    """Number of runs by variant, with the seeds first_seed, first_seed + 1, ...; 0 or null leaves the variant out."""
