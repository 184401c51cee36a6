"""Settings of the small experiments about what other documents say of LayerNorm."""

from typing import Annotated, Literal

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
    refuse,
    refuse_indivisible,
)

_Count = Annotated[Integer, Field(ge=1, le=100_000)]
_Coordinate = Annotated[Real, Field(ge=-10, le=10)]


class Geometry(Section):
    """LayerNorm as projection, scaling, gain and bias, compared with torch's LayerNorm."""

    dimensions: Distinct[Annotated[Integer, Field(ge=2, le=65_536)]]
    """Sizes n of the normalised vectors."""
    dtypes: Distinct[Literal["float16", "bfloat16", "float32", "float64"]]
    """Precisions of the arithmetic."""
    input_norms: Distinct[Annotated[Real, Field(gt=0, le=1e100)]]
    """Lengths of the inputs."""
    offsets: Annotated[Distinct[Annotated[Real, Field(ge=0, le=1e9)]], Field(max_length=3)]
    """Part of the inputs along the ones vector, relative to their length."""
    eps: Annotated[Distinct[Annotated[Real, Field(gt=0, le=1)]], Field(max_length=3)]
    """Values of eps that are compared, beside 0."""
    samples: _Count
    """Inputs for each size, length and offset."""
    axes_up_to: Annotated[Integer, Field(ge=2, le=8192)]
    """Largest size n for which the ellipsoid of the outputs and their rank are computed."""
    cloud: Annotated[Integer, Field(ge=1, le=10_000)]
    """Points of the drawing in three dimensions."""
    cloud_gain: tuple[_Coordinate, _Coordinate, _Coordinate]
    """LayerNorm's gain in the drawing in three dimensions."""
    cloud_bias: tuple[_Coordinate, _Coordinate, _Coordinate]
    """LayerNorm's bias in the drawing in three dimensions."""

    @model_validator(mode="after")
    def _formulas_can_be_compared(self):
        if 0 not in self.offsets:
            raise refuse("offsets", self.offsets, "a list with 0, for which there are formulas")
        if "float64" not in self.dtypes:
            raise refuse("dtypes", self.dtypes, "a list with float64, which is compared with the formulas")
        return self


class Fusion(Section):
    """Can one matrix replace W_O and W_1?"""

    d_model: Distinct[Annotated[Integer, Field(ge=2, le=4096)]]
    """Sizes of the residual stream."""
    head_factors: Distinct[Annotated[Real, Field(ge=0.5, le=16)]]
    """Size of the concatenated heads, relative to d_model."""
    expansion: Annotated[Integer, Field(ge=1, le=64)]
    """Hidden units of the feed-forward part, relative to d_model."""
    tokens_per_input: Annotated[Integer, Field(ge=2, le=10_000)]
    """Tokens fitted for each input of the largest single map; as many are held out."""
    contexts: Annotated[Integer, Field(ge=2, le=100_000)]
    """Long contexts on which the blocks of a trained language model are measured."""
    seeds: NumberOfSeeds
    """Draws of random attention blocks, with the seeds first_seed, first_seed + 1, ..."""

    @model_validator(mode="after")
    def _some_heads_are_as_wide_as_the_stream(self):
        if 1 not in self.head_factors:
            raise refuse("head_factors", self.head_factors, "a list with 1: heads as wide as the stream")
        return self


class Placement(Section):
    """Pre-norm and post-norm transformers, trained on a training text."""

    text: Identifier
    """Name of the text, in the section `text`, whose training documents the models read."""
    placements: Distinct[Literal["pre", "post"]]
    """pre: LayerNorm before the parts of a layer; post: after their residual sums."""
    depths: Distinct[Annotated[Integer, Field(ge=1, le=1024)]]
    """Numbers of layers of the networks that are trained."""
    probe_up_to: Annotated[Integer, Field(ge=1, le=1024)]
    """Largest of `depths` at which networks without residual connections are trained, too, and the streams of both are
    probed for the position of their tokens."""
    untrained_depths: Distinct[Annotated[Integer, Field(ge=1, le=1024)]]
    """Numbers of layers of the untrained networks whose gradients are measured with and without residuals."""
    d_model: Annotated[Integer, Field(ge=2, le=4096)]
    """Size of the residual stream."""
    heads: Annotated[Integer, Field(ge=1, le=256)]
    """Attention heads of a layer."""
    context_length: Annotated[Integer, Field(ge=2, le=4096)]
    """Tokens in a training window."""
    batch_size: Annotated[Integer, Field(ge=1, le=4096)]
    """Windows in a training batch."""
    vocabulary: Annotated[Integer, Field(ge=3, le=65_536)]
    """Number of different tokens: the most frequent ones are kept, all rarer ones count as one."""
    steps: Annotated[Integer, Field(ge=1, le=1_000_000)]
    """Optimiser steps of a run."""
    learning_rates: Distinct[LearningRate]
    """Adam's learning rates, constant after the warm-up."""
    warmup: Distinct[Annotated[Integer, Field(ge=0, le=1_000_000)]]
    """Optimiser steps of linear warm-up of the learning rate; 0 for none."""
    gradients_every: Annotated[Integer, Field(ge=1, le=1_000_000)]
    """Optimiser steps between two rows of placement_gradients."""
    seeds: NumberOfSeeds
    """Runs of every setting, with the seeds first_seed, first_seed + 1, ..., of initialisation and training batches."""
    untrained_seeds: NumberOfSeeds
    """Untrained networks of every kind and depth, with the seeds first_seed, first_seed + 1, ..."""

    @model_validator(mode="after")
    def _networks_can_be_built_and_probed(self):
        refuse_indivisible(self.d_model, self.heads)
        if self.probe_up_to < min(self.depths):
            expected = f"at least {min(self.depths)}, the smallest of depths"
            raise refuse("probe_up_to", self.probe_up_to, expected)
        return self


class BatchDependence(Section):
    """How a token's output depends on the batch, with LayerNorm and with BatchNorm."""

    d_model: Size
    """Size of a token's vector."""
    tokens: Annotated[Integer, Field(ge=3, le=65_536)]
    """Tokens of a sequence."""
    batch_sizes: Distinct[Size]
    """Sequences in a batch."""
    padding: Distinct[Annotated[Real, Field(gt=0, lt=1)]]
    """Shares of a sequence that are padding."""
    updates: _Count
    """Training batches from which BatchNorm's running statistics are made."""
    repeats: _Count
    """Independent draws over which a row of batch_dependence is a mean."""
    seeds: NumberOfSeeds
    """Draws of the sequences, with the seeds first_seed, first_seed + 1, ..."""

    @model_validator(mode="after")
    def _effects_can_be_measured(self):
        if max(self.batch_sizes) == 1:
            raise refuse("batch_sizes", self.batch_sizes, "a list with a size above 1: others in the batch")
        for share in self.padding:
            if not 2 <= round(self.tokens * (1 - share)) < self.tokens:
                expected = f"a share that leaves 2 to {self.tokens - 1} of tokens = {self.tokens}"
                raise refuse("padding", share, expected)
        return self


class ScoreScale(Section):
    """Measurement of attention scores with and without their division by sqrt(d_k)."""

    d_k: Distinct[Size]
    """Dimensions of queries and keys."""
    keys: Annotated[Integer, Field(ge=2, le=65_536)]
    """Keys in a context of random vectors, and as many queries."""
    contexts: _Count
    """Long contexts on which the heads of a trained language model are measured."""
    seeds: NumberOfSeeds
    """Draws of random queries and keys, with the seeds first_seed, first_seed + 1, ..."""


class Statements(Section):
    """What the documents beside the paper say about LayerNorm, as small experiments."""

    geometry: Geometry
    fusion: Fusion
    placement: Placement
    batch_dependence: BatchDependence
    score_scale: ScoreScale
