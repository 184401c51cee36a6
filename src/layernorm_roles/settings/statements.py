"""Settings (sizes, steps, seeds) of small experiments on what documents other than the paper say about LayerNorm."""

from typing import Annotated

from pydantic import Field, model_validator

from layernorm_roles.settings.base import (
    Distinct,
    Identifier,
    Integer,
    LearningRate,
    NumberOfSeeds,
    Real,
    Section,
    Size,
    misfit_error,
    refuse_indivisible,
)

PLACEMENTS = ("pre", "post")
"""Places of the norm in a transformer layer: "pre", before attention and feed-forward; "post", after residual sums."""
PROBED_UP_TO = 6
"""Largest number of layers at which positions are read off the stream, and networks without residuals are trained."""

_Count = Annotated[Integer, Field(ge=1, le=100_000)]
_Contexts = Annotated[Integer, Field(ge=2, le=100_000)]
_Width = Annotated[Integer, Field(ge=2, le=4096)]
_Depths = Distinct[Annotated[Integer, Field(ge=1, le=1024)]]
_Steps = Annotated[Integer, Field(ge=1, le=1_000_000)]


class Geometry(Section):
    """Settings of a test that compares torch's LayerNorm with LayerNorm in four steps, on random vectors."""

    dimensions: Distinct[Annotated[Integer, Field(ge=2, le=65_536)]]
    """Dimensions of the vectors that are normalised."""
    input_norms: Distinct[Annotated[Real, Field(gt=0, le=1e100)]]
    """Euclidean norms of the vectors that enter LayerNorm."""


class Fusion(Section):
    """Settings of a test of whether one matrix can replace attention's W_O and the feed-forward network's W_1."""

    d_model: Distinct[_Width]
    """Sizes of the residual stream for which transformer blocks with random weights are tested."""
    contexts: _Contexts
    """Number of long texts on which the blocks of a trained language model are tested."""
    seeds: NumberOfSeeds
    """Number of random blocks for each size, with the random seeds first_seed, first_seed + 1, ..."""


class Placement(Section):
    """Settings of a comparison of transformers with LayerNorm in different places: pre-norm and post-norm."""

    text: Identifier
    """Name of the text, in the section `text`, on whose training documents the transformers are trained."""
    depths: _Depths
    """Numbers of layers of the pre-norm and post-norm networks that are trained."""
    untrained_depths: _Depths
    """Numbers of layers of the untrained networks whose gradients are measured, with and without residuals."""
    d_model: _Width
    """Size of the networks' residual stream."""
    heads: Annotated[Integer, Field(ge=1, le=256)]
    """Number of attention heads in a layer of the networks."""
    context_length: _Width
    """Number of tokens in a training sequence."""
    vocabulary: Annotated[Integer, Field(ge=3, le=65_536)]
    """Number of different tokens: the most frequent ones are kept, all rarer ones become one token."""
    steps: _Steps
    """Optimiser steps of the training of a network."""
    learning_rates: Distinct[LearningRate]
    """Adam's learning rates; each is constant over the training, without warm-up."""
    seeds: NumberOfSeeds
    """Training runs for each placement, depth and learning rate; their seeds are first_seed, first_seed + 1, ..."""
    untrained_seeds: NumberOfSeeds
    """Untrained networks for each placement and depth, with and without residuals; seeds from first_seed on."""

    @model_validator(mode="after")
    def _networks_can_be_built_and_probed(self):
        refuse_indivisible(self.d_model, self.heads)
        if min(self.depths) > PROBED_UP_TO:
            expected = f"a list with a depth of at most {PROBED_UP_TO}, whose streams are probed"
            raise misfit_error("depths", self.depths, expected)
        return self


class BatchDependence(Section):
    """Settings of a test of how far LayerNorm's and BatchNorm's outputs at a token depend on the rest of the batch."""

    batch_sizes: Distinct[Size]
    """Numbers of sequences in a batch, each of which is tried."""
    repeats: _Count
    """Number of random batches over which each row of the table batch_dependence is a mean."""
    seeds: NumberOfSeeds
    """Number of random seeds for the batches: first_seed, first_seed + 1, and so on."""

    @model_validator(mode="after")
    def _some_sequences_have_others_beside_them(self):
        if max(self.batch_sizes) == 1:
            expected = "a list with a size above 1: others in the batch"
            raise misfit_error("batch_sizes", self.batch_sizes, expected)
        return self


class ScoreScale(Section):
    """Settings of an experiment on what the division of attention scores by sqrt(d_k) does."""

    d_k: Distinct[Size]
    """Dimensions of queries and keys, each of which is tried."""
    seeds: NumberOfSeeds
    """Number of draws of random queries and keys, with the random seeds first_seed, first_seed + 1, ..."""


class Statements(Section):
    """Settings of small experiments on what documents other than the paper say about LayerNorm."""

    geometry: Geometry
    fusion: Fusion
    placement: Placement
    batch_dependence: BatchDependence
    score_scale: ScoreScale
