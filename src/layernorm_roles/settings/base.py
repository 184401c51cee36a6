"""The kinds of values that settings are made of: types and bounds, shared by the sections of config.yaml."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A part of config.yaml: frozen once it is read, with known keys only."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True, use_attribute_docstrings=True
    )


def misfit_error(key: str, value: Any, expected: str) -> PydanticCustomError:
    """The error, `key = value: expected ...`, for a value that does not fit the values of other keys."""
    return PydanticCustomError(
        "combination",
        "{key} = {value}: expected {expected}",
        {"key": key, "value": repr(list(value) if isinstance(value, tuple) else value), "expected": expected},
    )


def refuse_indivisible(d_model: int, heads: int) -> None:
    """Raise the error for a number of `heads` among which `d_model` dimensions cannot be divided equally."""
    if d_model % heads:
        raise misfit_error("heads", heads, f"a divisor of d_model = {d_model}")


def _number(value: Any) -> Any:
    """The number that a text such as 1e-3 stands for, which YAML reads as a text because it has no dot."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _whole_number(value: Any) -> Any:
    """The integer that a number such as 1e3 or 1.0e+3 is; any other value unchanged."""
    number = _number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _distinct(values: tuple) -> tuple:
    if len(set(values)) < len(values):
        raise PydanticCustomError("distinct", "expected different values")
    return values


Integer = Annotated[int, Field(strict=True), BeforeValidator(_whole_number)]
"""An integer, which may be written as 1e3."""
Real = Annotated[float, Field(strict=True), BeforeValidator(_number)]
"""A finite number, which may be written as 1e-3."""
Item = TypeVar("Item")
Distinct = Annotated[tuple[Item, ...], Field(min_length=1, max_length=100), AfterValidator(_distinct)]
"""A list of different values, at least one; each may stand for many runs, so that a longer list is a mistake."""


def one_or_several(item: Any) -> BeforeValidator:
    """A validator that takes a single value of the type `item` in config.yaml for a list of one."""
    return BeforeValidator(
        lambda value: value if isinstance(value, list | tuple) else (value,),
        json_schema_input_type=item | Distinct[item],
    )


Size = Annotated[Integer, Field(ge=1, le=65_536)]
"""A dimension of an array, or a number of layers, heads, windows or sequences."""
Steps = Annotated[Integer, Field(ge=1, le=100_000_000)]
"""A number of optimiser steps."""
Number = Annotated[Integer, Field(ge=1, le=1_000_000)]
"""A number of texts, tokens or sequences."""
LearningRate = Annotated[Real, Field(gt=0, le=10)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
RunsPerJob = Number | Literal["all"]
"""How many runs of an experiment or model one process trains in turn; all: every run of it."""
NumberOfSeeds = Annotated[Integer, Field(ge=1, le=1000)]
"""How many seeds an experiment has: first_seed, first_seed + 1, ..."""
Word = Annotated[str, StringConstraints(min_length=1)]
Seeds = dict[Identifier, Annotated[Integer, Field(ge=0, le=1000)]]
"""Number of runs by variant, with the seeds first_seed, first_seed + 1, ...; 0 leaves the variant out."""
