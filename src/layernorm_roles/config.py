"""config.yaml, checked as a whole before any job starts."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

BUILT_IN_NORMS = ("layernorm", "projection", "scale", "scale_released", "layernorm_small", "none")
"""The names of `norms.VARIANTS`, known here without importing torch (a test holds them equal)."""


def check(config: Mapping[str, Any], schema_file: str | Path) -> None:
    """Raise ValueError with one line for each fault of `config`: the key, its value, and what is allowed."""
    schema = yaml.safe_load(Path(schema_file).read_text())
    faults = [_explain(error) for error in Draft202012Validator(schema).iter_errors(config)]
    faults = faults or [*_majority_faults(config), *_norm_faults(config)]
    if faults:
        raise ValueError("the configuration is not usable:\n" + "\n".join(f"  {fault}" for fault in faults))


def norm_class(config: Mapping[str, Any], variant: str) -> str:
    """What `norms.build` takes for a variant of the configuration: its own name, or "package.module:Class"."""
    return config["norms"].get(variant, variant)


def _explain(error: ValidationError) -> str:
    key = ".".join(map(str, error.absolute_path)) or "(top level)"
    allowed = error.schema.get("description") if isinstance(error.schema, Mapping) else None
    match error.validator:
        case "additionalProperties":
            known = ", ".join(error.schema.get("properties", {}))
            unknown = ", ".join(map(repr, sorted(set(error.instance) - set(error.schema["properties"]))))
            return f"{key}: unknown key {unknown}; known are {known}"
        case "required":
            return f"{key}: {error.message}"
        case "enum":
            return (
                f"{key} = {error.instance!r}: expected one of {', '.join(map(repr, error.validator_value))}"
            )
        case "type":
            kind = error.validator_value
            return f"{key} = {error.instance!r}: expected {_bounds(error.schema) or kind}"
        case "pattern":
            return f"{key} = {error.instance!r}: expected {allowed or error.validator_value}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            return f"{key} = {error.instance!r}: expected {_bounds(error.schema)}"
    return f"{key}: {error.message}"


def _bounds(schema: Mapping[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = " and ".join(f"{text} {schema[name]}" for name, text in words.items() if name in schema)
    return f"{schema.get('type', 'value')} {limits}".strip()


def _majority_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """What the schema cannot say: values that are fine alone and impossible together."""
    for name, task in config["majority"].items():
        key = f"majority.{name}"
        length, gap = task["sequence_length"], task["gap"]
        if gap > length - 2:
            # The smallest rival has one token, so the majority leads by at most length - 2.
            yield f"{key}.gap = {gap}: expected at most sequence_length - 2 = {length - 2}"
        if task["classes"] > length:
            yield f"{key}.classes = {task['classes']}: expected at most sequence_length = {length}"
        if task["steps"] > task["schedule_steps"]:
            yield (
                f"{key}.steps = {task['steps']}: expected at most schedule_steps = {task['schedule_steps']}, "
                "where the learning rate is 0"
            )


def _norm_faults(config: Mapping[str, Any]) -> Iterator[str]:
    for name in config["norms"]:
        if name in BUILT_IN_NORMS:
            yield f"norms.{name}: this name is a built-in variant; choose another"
    known = {*BUILT_IN_NORMS, *config["norms"]}
    used: dict[str, int] = {}
    for experiment, task in config["majority"].items():
        for variant, seeds in task["seeds"].items():
            if variant not in known:
                names = ", ".join([*BUILT_IN_NORMS, *config["norms"]])
                yield f"majority.{experiment}.seeds.{variant}: unknown variant; expected one of {names}"
            elif seeds:
                used[variant] = task["dim"]
    for name in config["norms"].keys() & used.keys():
        from layernorm_roles import norms  # torch takes a second to import: only for norms of one's own

        try:
            norms.build(config["norms"][name], used[name])
        except ValueError as error:
            yield f"norms.{name}: {error}"
