"""Settings of the random keys (Figures 1c and 1d of the paper)."""

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
"""The first and the last of consecutive whole numbers."""
Dimensions = Annotated[tuple[_Dimension, _Dimension], AfterValidator(_ordered)]
"""The first and the last of consecutive dimensions of a key, at least 2: in one dimension LayerNorm divides 0 by 0."""


class Precision(Section):
    """LayerNorm as it is used in practice, with eps and in float32, on the Gaussian matrices of `RandomKeys`."""

    dimensions: Dimensions
    """Dimensions of a key, d, first and last."""
    eps: Annotated[Distinct[Annotated[Real, Field(ge=0, le=1)]], Field(max_length=4)]
    """Values of LayerNorm's eps; 1e-5 is torch's default."""
    dtypes: Distinct[Literal["float64", "float32"]]
    """Precisions of the keys and of LayerNorm."""


class Law(Section):
    """From how many Gaussian keys on is a share of them unselectable, by their dimension? Nothing is drawn."""

    dimensions: Dimensions
    """Dimensions of a key, d, first and last."""
    shares: Annotated[Distinct[Annotated[Real, Field(gt=0, lt=1)]], Field(max_length=3)]
    """Expected shares of unselectable keys for which the number of keys is sought."""
    largest: Annotated[Integer, Field(ge=2, le=10**12)]
    """Largest number of keys that is tried."""


class RandomKeys(Section):
    """How often does a matrix of Gaussian keys have a key that no query selects?"""

    keys: Range
    """Keys in a matrix, n, first and last."""
    dimensions: Dimensions
    """Dimensions of a key, d, first and last."""
    matrices: Annotated[Integer, Field(ge=2, le=1_000_000)]
    """Matrices for each n and d; every norm gets equal matrices."""
    norms: Distinct[Identifier]
    """Norms applied to the keys, in float64 and without eps."""
    precision: Precision
    """The experiment with eps and float32."""
    law: Law
    """The experiment on how many keys it takes, by their dimension, for a share of them to be unselectable."""
