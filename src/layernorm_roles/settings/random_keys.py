"""Settings of the experiments on random Gaussian keys (Figures 1c and 1d of the paper)."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from layernorm_roles.settings.base import Distinct, Identifier, Integer, Real, Section

_Bound = Annotated[Integer, Field(ge=1, le=1000)]
_Dimension = Annotated[Integer, Field(ge=2, le=1000)]


def _ordered(bounds: tuple[int, int]) -> tuple[int, int]:
    if bounds[0] > bounds[1]:
        raise PydanticCustomError("order", "expected [first, last] with first at most last")
    return bounds


Range = Annotated[tuple[_Bound, _Bound], AfterValidator(_ordered)]
"""A range of whole numbers as (first, last), the last included."""
Dimensions = Annotated[tuple[_Dimension, _Dimension], AfterValidator(_ordered)]
"""A range of key dimensions as (first, last), the last included; from 2 on, as LayerNorm of one number is 0/0."""


class Precision(Section):
    """Settings of an experiment on Gaussian keys after LayerNorm, for several values of eps, in float64 and float32."""

    dimensions: Dimensions
    """Range of the keys' dimension d as [first, last]; each dimension in it is tried."""
    eps: Annotated[Distinct[Annotated[Real, Field(ge=0, le=1)]], Field(max_length=4)]
    """Values of LayerNorm's eps; 1e-5 is torch's default."""
    dtypes: Distinct[Literal["float64", "float32"]]
    """Floating-point types in which the keys and LayerNorm are computed."""


class Law(Section):
    """Settings for computing how many Gaussian keys it takes until a given share of them is unselectable."""

    dimensions: Dimensions
    """Range of the keys' dimension d as [first, last]; each dimension in it is computed."""
    shares: Annotated[Distinct[Annotated[Real, Field(gt=0, lt=1)]], Field(max_length=3)]
    """Expected shares of unselectable keys, between 0 and 1, for which the number of keys is sought."""
    largest: Annotated[Integer, Field(ge=2, le=10**12)]
    """Largest number of Gaussian keys for which the share of unselectable ones is computed."""


class RandomKeys(Section):
    """Settings of the experiment that counts matrices of Gaussian keys with at least one unselectable key."""

    keys: Range
    """Range of the number n of keys in a matrix as [first, last]; each number in it is tried."""
    dimensions: Dimensions
    """Range of the keys' dimension d as [first, last]; each dimension in it is tried."""
    matrices: Annotated[Integer, Field(ge=2, le=1_000_000)]
    """Number of matrices for each n and d; every norm is applied to equal matrices."""
    norms: Distinct[Identifier]
    """Names of the norms that are applied to the keys, in float64 and without eps."""
    precision: Precision
    """Settings of an experiment with Gaussian keys after LayerNorm with an eps, or in float32.

    It counts how often a matrix of such keys has one that no query gives the highest score.
    """
    law: Law
    """The computation of how many keys it takes, by dimension, for a share of them to be unselectable."""
