"""Types of settings, with their bounds, that several sections of config.yaml share, and the base class of a section."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """Base class of a section of config.yaml: an immutable pydantic model that refuses keys it does not declare."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, use_attribute_docstrings=True
    )

    @model_validator(mode="before")
    @classmethod
    def _keys_are_known(cls, entry: Any) -> Any:
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            if key not in cls.model_fields:
                near = get_close_matches(str(key), cls.model_fields) or cls.model_fields
                raise misfit_error(str(key), value, f"a known key: {', '.join(near)}")
        return entry


def misfit_error(key: str, value: Any, expected: str) -> PydanticCustomError:
    """A pydantic error, for the caller to raise, on a key that is unknown or contradicts other settings."""
    about = {"key": key, "value": list(value) if isinstance(value, tuple) else value, "expected": expected}
    return PydanticCustomError("misfit", "expected {expected}", about)


def refuse_indivisible(d_model: int, heads: int) -> None:
    """Raise a pydantic error if d_model is not a multiple of the number of attention heads, `heads`."""
    if d_model % heads:
        raise misfit_error("heads", heads, f"a divisor of d_model = {d_model}")


def _number(value: Any) -> Any:
    """The float of a string such as "1e-3", which YAML does not take for a number; any other value unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _whole_number(value: Any) -> Any:
    """The int that equals a whole float or numeric string, such as 1000.0 or "1e3"; any other value unchanged."""
    number = _number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _distinct(values: tuple) -> tuple:
    if len(set(values)) < len(values):
        raise PydanticCustomError("distinct", "expected different values")
    return values


Integer = Annotated[int, Field(strict=True), BeforeValidator(_whole_number)]
"""An integer, which config.yaml may also write in the form 1e3."""
Real = Annotated[float, Field(strict=True), BeforeValidator(_number)]
"""A finite float, which config.yaml may also write in the form 1e-3."""
Item = TypeVar("Item")
Distinct = Annotated[tuple[Item, ...], Field(min_length=1, max_length=100), AfterValidator(_distinct)]
"""A list of 1 to 100 different values; each may cause many training runs, so a longer list is taken for a mistake."""


def one_or_several(item: Any) -> BeforeValidator:
    """A pydantic validator that makes a single value of type `item` a tuple of one, and leaves lists as they are."""
    return BeforeValidator(
        lambda value: value if isinstance(value, list | tuple) else (value,),
        json_schema_input_type=item | Distinct[item],
    )


Size = Annotated[Integer, Field(ge=1, le=65_536)]
"""The type of settings that are a size: a dimension of an array, or a number of layers, heads or sequences."""
Steps = Annotated[Integer, Field(ge=1, le=100_000_000)]
"""The type of settings that are a number of optimiser steps."""
Number = Annotated[Integer, Field(ge=1, le=1_000_000)]
"""The type of settings that are a number of texts, tokens, sequences or runs."""
LearningRate = Annotated[Real, Field(gt=0, le=10)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
RunsPerJob = Number | Literal["all"]
"""How many training runs of an experiment or language model one process does in turn; "all": every run there is."""
NumberOfSeeds = Annotated[Integer, Field(ge=1, le=1000)]
"""How many random seeds are used; they are first_seed (a key of config.yaml), first_seed + 1, and so on."""
Word = Annotated[str, StringConstraints(min_length=1)]


def _ranges_spelt_out(value: Any) -> Any:
    """A list of seeds in which every "first-last" is replaced by the seeds from first to last."""
    if not isinstance(value, list | tuple):
        return value
    seeds = []
    for each in value:
        first, dash, last = each.partition("-") if isinstance(each, str) else (each, "", "")
        if dash and first.isdecimal() and last.isdecimal():
            if not int(first) <= int(last) < int(first) + 1000:
                raise PydanticCustomError(
                    "seeds", "expected first-last, at most 1,000 seeds in ascending order"
                )
            seeds += range(int(first), int(last) + 1)
        else:
            seeds.append(each)
    return seeds


ListedSeeds = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=0, le=2**32)], ...],
    Field(max_length=1000),
    AfterValidator(_distinct),
    BeforeValidator(_ranges_spelt_out, json_schema_input_type=list[int | str]),
]
NumberOrSeeds = Annotated[Integer, Field(ge=0, le=1000)] | ListedSeeds
Seeds = dict[Identifier, NumberOrSeeds]
"""The training runs of each variant of the norm before attention, by the variant's name: how many, with the random
seeds first_seed (a key of config.yaml), first_seed + 1 and so on; or a list of seeds, such as [7, 40000-40004]."""
