"""Settings of the small experiments about what other documents say of LayerNorm: what decides sizes, cost and seeds.

Whatever else an experiment consists of is a constant in its module in `layernorm_roles.statements`.
"""

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
"""The places of the norm in the trained transformers: before each part of a layer, or after each residual sum."""
PROBED_UP_TO = 6
"""Largest depth at which transformers without residual connections are trained, too, and the streams of both are probed
for the position of their tokens."""

_Count = Annotated[Integer, Field(ge=1, le=100_000)]
_Contexts = Annotated[Integer, Field(ge=2, le=100_000)]
_Width = Annotated[Integer, Field(ge=2, le=4096)]
_Depths = Distinct[Annotated[Integer, Field(ge=1, le=1024)]]
_Steps = Annotated[Integer, Field(ge=1, le=1_000_000)]


class Geometry(Section):
    """LayerNorm as projection, scaling, gain and bias, compared with torch's LayerNorm."""

    dimensions: Distinct[Annotated[Integer, Field(ge=2, le=65_536)]]
    """Sizes n of the normalised vectors."""
    input_norms: Distinct[Annotated[Real, Field(gt=0, le=1e100)]]
    """Lengths of the inputs."""


class Fusion(Section):
    """Can one matrix replace W_O and W_1?"""

    d_model: Distinct[_Width]
    """Sizes of the residual stream in random attention blocks."""
    contexts: _Contexts
    """Long contexts on which the blocks of a trained language model are measured."""
    seeds: NumberOfSeeds
    """Draws of random attention blocks, with the seeds first_seed, first_seed + 1, ..."""


class Placement(Section):
    """Pre-norm and post-norm transformers, trained on a training text."""

    text: Identifier
    """Name of the text, in the section `text`, whose training documents the models read."""
    depths: _Depths
    """Numbers of layers of the networks that are trained."""
    untrained_depths: _Depths
    """Numbers of layers of the untrained networks whose gradients are measured with and without residuals."""
    d_model: _Width
    """Size of the residual stream."""
    heads: Annotated[Integer, Field(ge=1, le=256)]
    """Attention heads of a layer."""
    context_length: _Width
    """Tokens in a training window."""
    vocabulary: Annotated[Integer, Field(ge=3, le=65_536)]
    """Number of different tokens: the most frequent ones are kept, all rarer ones count as one."""
    steps: _Steps
    """Optimiser steps of a run."""
    learning_rates: Distinct[LearningRate]
    """Adam's learning rates, constant: there is no warm-up."""
    seeds: NumberOfSeeds
    """Runs of every setting, with the seeds first_seed, first_seed + 1, ..., of initialisation and training batches."""
    untrained_seeds: NumberOfSeeds
    """Untrained networks of every kind and depth, with the seeds first_seed, first_seed + 1, ..."""

    @model_validator(mode="after")
    def _networks_can_be_built_and_probed(self):
        refuse_indivisible(self.d_model, self.heads)
        if min(self.depths) > PROBED_UP_TO:
            expected = f"a list with a depth of at most {PROBED_UP_TO}, whose streams are probed"
            raise misfit_error("depths", self.depths, expected)
        return self


class BatchDependence(Section):
    """How a token's output depends on the batch, with LayerNorm and with BatchNorm."""

    batch_sizes: Distinct[Size]
    """Sequences in a batch."""
    repeats: _Count
    """Independent draws over which a row of batch_dependence is a mean."""
    seeds: NumberOfSeeds
    """Draws of the sequences, with the seeds first_seed, first_seed + 1, ..."""

    @model_validator(mode="after")
    def _some_sequences_have_others_beside_them(self):
        if max(self.batch_sizes) == 1:
            raise misfit_error(
                "batch_sizes", self.batch_sizes, "a list with a size above 1: others in the batch"
            )
        return self


class ScoreScale(Section):
    """Attention scores of random queries and keys, with and without their division by sqrt(d_k)."""

    d_k: Distinct[Size]
    """Dimensions of queries and keys."""
    seeds: NumberOfSeeds
    """Draws of random queries and keys, with the seeds first_seed, first_seed + 1, ..."""


class Statements(Section):
    """What the documents beside the paper say about LayerNorm, as small experiments."""

    geometry: Geometry
    fusion: Fusion
    placement: Placement
    batch_dependence: BatchDependence
    score_scale: ScoreScale
