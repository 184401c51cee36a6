"""The kinds of values that settings are made of: types and bounds, shared by the sections of config.yaml."""

import ast
import inspect
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
)
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """A part of config.yaml: frozen once it is read, with known keys only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The JSON schema, in which the docstrings of attributes describe them.

        pydantic's `use_attribute_docstrings` would read them whenever a class is made, in each job.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for section in cls.__mro__:
            texts = _docstrings(section) if issubclass(section, Section) else {}
            for name in texts.keys() & properties.keys():
                properties[name].setdefault("description", texts[name])
        return schema


def _docstrings(section: type) -> dict[str, str]:
    """The docstrings of the attributes that stand in a class, by attribute."""
    (definition,) = ast.parse(dedent(inspect.getsource(section))).body
    return {
        attribute.target.id: inspect.cleandoc(text.value.value)
        for attribute, text in pairwise(definition.body)
        if isinstance(attribute, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def refuse(key: str, value: Any, expected: str) -> PydanticCustomError:
    """The error for a `value` that a rule between several keys refuses; its reader sees `key = value: expected ...`."""
    return PydanticCustomError(
        "combination",
        "{key} = {value}: expected {expected}",
        {"key": key, "value": repr(list(value) if isinstance(value, tuple) else value), "expected": expected},
    )


def refuse_indivisible(d_model: int, heads: int) -> None:
    """Raise the error for a number of `heads` among which `d_model` dimensions cannot be divided equally."""
    if d_model % heads:
        raise refuse("heads", heads, f"a divisor of d_model = {d_model}")


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


def _runs_or_all(value: Any) -> Any:
    """`value` if it is the word all, else the number of runs that it stands for."""
    return value if value == "all" else TypeAdapter(Number).validate_python(value)


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
    """What lets a value of the type `item` stand in config.yaml for the list of that value alone."""
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
Identifier = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$"),
    Field(description='a name of lower-case letters, digits and "_", beginning with a letter'),
]
RunsPerJob = Annotated[
    int | Literal["all"],
    BeforeValidator(_runs_or_all, json_schema_input_type=Number | Literal["all"]),
]
"""How many runs of an experiment or model one process trains in turn; all: every run of it."""
NumberOfSeeds = Annotated[Integer, Field(ge=1, le=1000)]
"""How many seeds an experiment has: first_seed, first_seed + 1, ..."""
Word = Annotated[str, StringConstraints(min_length=1)]
Seeds = dict[Identifier, Annotated[Integer, Field(ge=0, le=1000)]]
"""Number of runs by variant, with the seeds first_seed, first_seed + 1, ...; 0 leaves the variant out."""
