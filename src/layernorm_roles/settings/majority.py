"""Settings of the majority task, to name the most frequent class of a sequence (the paper's Figures 1a, 1b, 2, 3)."""

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
"""The value of `evaluate_every` that asks for evaluations at steps 1, 2, 3, 4, 5, 6, 8, 10, 12, ..., ten a decade."""


Width = Annotated[Integer, Field(ge=2, le=1024)]
"""The type of settings that are a number of dimensions of the residual stream."""


class MajorityData(Section):
    """The settings, except for the seed, from which the sequences of an experiment on the majority task are drawn."""

    sequence_length: Annotated[Integer, Field(ge=3, le=255)]
    """Number of tokens in a sequence of the majority task."""
    classes: Annotated[Integer, Field(ge=2, le=255)]
    """Number of different tokens; the paper has 20, and 10 in its model of three dimensions."""
    majority_gap: Annotated[Integer, Field(ge=1, le=255)]
    """How many more tokens a sequence has of its majority class than of the second most frequent class, at least."""
    sequences: Annotated[Integer, Field(ge=10, le=100_000_000)]
    """Number of sequences for training and testing together."""
    labellings: Number
    """Sequences per partition of the sequence length into class counts, which are assigned to classes at random."""
    sampling: Literal["depth_first", "uniform"]
    """How partitions are drawn. depth_first: by a tree walk, as in the paper's code; uniform: all equally likely."""
    split: Literal["rows", "partitions"]
    """How sequences are split. rows: those of one partition (of one set of class counts) may be in both the training
    and the test set, as in the paper's code; partitions: all of one partition are in one of the two sets."""
    test_share: Annotated[Real, Field(gt=0, lt=1)]
    """Share of the sequences that are for testing, not for training."""

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
        """The number of partitions to draw: `sequences` // `labellings` + 1, as in the paper's code.

        A partition writes sequence_length as a sum of class counts; `labellings` sequences are made of it.
        """
        return self.sequences // self.labellings + 1

    def of_data(self) -> dict[str, Any]:
        """The settings from which the sequences are drawn, as JSON values by name, without those of training."""
        return self.model_dump(mode="json", include={*MajorityData.model_fields})


class MajorityTraining(MajorityData):
    """The settings of a training on the majority task, without variant, seed, d_model and learning rate."""

    d_ff: Annotated[Integer, Field(ge=1, le=4096)] | None
    """Hidden units of the feed-forward network; null: as many as d_model."""
    batch_size: Annotated[Integer, Field(ge=1, le=10_000_000)]
    """Sequences in a training batch; the last batch of an epoch has those that remain."""
    steps: Steps
    """Optimiser steps of a training run."""
    schedule_steps: Annotated[Integer, Field(ge=1, le=1_000_000_000)]
    """Optimiser step at which the learning rate, which falls linearly, reaches 0."""
    evaluate_every: Steps | Literal["logarithmic"]
    """Optimiser steps between evaluations (majority_metrics); logarithmic: 1, ..., 6, 8, 10, 12, ..., ten a decade."""
    checkpoint_every: Steps
    """Optimiser steps between two checkpoints, from which an interrupted training goes on."""

    @model_validator(mode="after")
    def _schedule_covers_the_steps(self):
        if self.steps > self.schedule_steps:
            expected = f"at most schedule_steps = {self.schedule_steps}, where the learning rate is 0"
            raise misfit_error("steps", self.steps, expected)
        return self

    def of_training(self) -> dict[str, Any]:
        """The settings of a training and of the sequences that it reads, as JSON values by name."""
        return self.model_dump(mode="json", include={*MajorityTraining.model_fields})


class MajorityExperiment(MajorityTraining):
    """The settings of an experiment on the majority task: an entry of the section `majority` in config.yaml."""

    d_model: Annotated[Distinct[Width], one_or_several(Width)]
    """Size of the residual stream and of the only attention head. A list trains every variant with each size."""
    learning_rate: Annotated[Distinct[LearningRate], one_or_several(LearningRate)]
    """Adam's learning rate at the first step. A list trains every variant with each rate."""
    runs_per_job: RunsPerJob
    """How many runs one process trains in turn and writes to one set of files; all: every run. More than 1 suits short
    runs. If a process has fewer and a run is added to it, all of its runs are trained again."""
    seeds: Seeds
    """Number or list of seeds of the training runs of each variant, by its name; 0 or null: no such run."""
