"""Settings of the majority task (Figures 1a, 1b, 2 and 3 of the paper)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from layernorm_roles.partitions import count_admissible
from layernorm_roles.settings.base import Integer, LearningRate, Number, Real, Section, Seeds, Steps, refuse


class MajorityExperiment(Section):
    """One experiment of the majority task: which class is the most frequent of a sequence?"""

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
    d_model: Annotated[Integer, Field(ge=2, le=1024)]
    """Size of the residual stream; there is one attention head of this size."""
    d_ff: Annotated[Integer, Field(ge=1, le=4096)]
    """Hidden units of the feed-forward part."""
    batch_size: Annotated[Integer, Field(ge=1, le=10_000_000)]
    """Sequences in a training batch; the last batch of an epoch is what remains."""
    steps: Steps
    """Optimiser steps of a run."""
    schedule_steps: Annotated[Integer, Field(ge=1, le=1_000_000_000)]
    """Optimiser step at which the learning rate, which falls linearly, reaches 0."""
    learning_rate: LearningRate
    """Adam's learning rate at the first step."""
    evaluate_every: Steps
    """Optimiser steps between two rows of majority_metrics."""
    checkpoint_every: Steps
    """Optimiser steps between two checkpoints, from which a killed run goes on."""
    seeds_per_job: Annotated[Integer, Field(ge=1, le=1000)] = 1
    """Seeds of a variant that one process trains in turn: above 1 for many short runs. A seed that is added to such a
    group trains the whole group again."""
    seeds: Seeds
    """Number of runs by variant, with the seeds 0, 1, ...; 0 or null leaves the variant out."""

    @model_validator(mode="after")
    def _keys_agree(self):
        length, gap = self.sequence_length, self.majority_gap
        if gap > length - 2:
            # The smallest rival has one token, so the majority leads by at most length - 2.
            raise refuse("majority_gap", gap, f"at most sequence_length - 2 = {length - 2}")
        if self.classes > length:
            raise refuse("classes", self.classes, f"at most sequence_length = {length}")
        known = count_admissible(length, self.classes, gap)
        if self.partitions > known:
            raise refuse(
                "sequences",
                self.sequences,
                f"at most labellings = {self.labellings} for each of the {known:,} admissible partitions",
            )
        if self.steps > self.schedule_steps:
            raise refuse(
                "steps",
                self.steps,
                f"at most schedule_steps = {self.schedule_steps}, where the learning rate is 0",
            )
        return self

    @property
    def partitions(self) -> int:
        """Partitions to draw: as released, the first number that gives more than `sequences` sequences."""
        return self.sequences // self.labellings + 1
