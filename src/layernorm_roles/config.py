"""config.yaml, checked as a whole before any job starts."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from layernorm_roles.majority.partitions import count_admissible

BUILT_IN_NORMS = ("layernorm", "projection", "scale", "scale_released", "layernorm_small", "none")
"""The names of `norms.VARIANTS`, known here without importing torch (a test holds them equal)."""


def check(config: Mapping[str, Any], schema_file: str | Path) -> None:
    """Raise ValueError with one line for each fault of `config`: the key, its value, and what is allowed."""
    faults = [_explain(error) for error in _validator(Path(schema_file)).iter_errors(config)]
    faults += _not_finite(config)
    faults = faults or [*_majority_faults(config), *_language_model_faults(config), *_norm_faults(config)]
    faults = faults or [*_statement_faults(config)]
    if faults:
        raise ValueError("the configuration is not usable:\n" + "\n".join(f"  {fault}" for fault in faults))


@cache
def _validator(schema_file: Path) -> Draft202012Validator:
    return Draft202012Validator(yaml.safe_load(schema_file.read_text()))


def _not_finite(value: Any, key: str = "") -> Iterator[str]:
    """Numbers that pass every bound of a schema because they compare with nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{key} = {value}: expected a finite number"
    children = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, child in children:
        yield from _not_finite(child, f"{key}.{name}".lstrip("."))


def norm_class(config: Mapping[str, Any], variant: str) -> str:
    """What `norms.build` takes for a variant of the configuration: its own name, or "package.module:Class"."""
    return config["norms"].get(variant, variant)


def gpus(config: Mapping[str, Any]) -> int:
    """GPUs that a training job asks for: 1 where the configuration wants one, or has no wish and one is here."""
    return int(config["device"] == "cuda" or (config["device"] == "auto" and Path("/dev/nvidia0").exists()))


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
        needed = task["sequences"] // task["labellings"] + 1
        if gap <= length - 2 and needed > (known := count_admissible(length, task["classes"], gap)):
            yield (
                f"{key}.sequences = {task['sequences']} with labellings = {task['labellings']} needs {needed:,} "
                f"partitions: expected at most the {known:,} admissible ones"
            )
        if task["steps"] > task["schedule_steps"]:
            yield (
                f"{key}.steps = {task['steps']}: expected at most schedule_steps = {task['schedule_steps']}, "
                "where the learning rate is 0"
            )


def _language_model_faults(config: Mapping[str, Any]) -> Iterator[str]:
    for model in ("gpt", "bert"):
        task, key = config["language_model"][model], f"language_model.{model}"
        if task["dim"] % task["heads"]:
            yield f"{key}.heads = {task['heads']}: expected a divisor of dim = {task['dim']}"
    for texts, model in (("long", "gpt"), ("sentences", "gpt"), ("sentences", "bert")):
        longest, context = config["text"][texts]["longest"], config["language_model"][model]["context"]
        if longest > context:
            yield f"text.{texts}.longest = {longest}: expected at most language_model.{model}.context = {context}"
    for name in ("long", "sentences"):
        shortest, longest = (config["text"][name][key] for key in ("shortest", "longest"))
        if shortest > longest:
            yield f"text.{name}.shortest = {shortest}: expected at most longest = {longest}"
    shares = config["text"]["split"]
    if abs(sum(shares.values()) - 1) > 1e-9:
        yield f"text.split = {dict(shares)}: expected shares that add up to 1"


def _variants(config: Mapping[str, Any]) -> Iterator[tuple[str, str, int, tuple[str, ...]]]:
    """Every use of a variant: its key, its name, the dimension, and names allowed there beside the norms."""
    for experiment, task in config["majority"].items():
        for variant in task["seeds"]:
            yield f"majority.{experiment}.seeds.{variant}", variant, task["dim"], ()
    for variant in config["random_keys"]["norms"]:
        yield "random_keys.norms", variant, config["random_keys"]["dimensions"][0], ()
    for model, extra in (("gpt", ("layernorm_qk",)), ("bert", ())):
        task = config["language_model"][model]
        for variant in task["seeds"]:
            yield f"language_model.{model}.seeds.{variant}", variant, task["dim"], extra


def _statement_faults(config: Mapping[str, Any]) -> Iterator[str]:
    placement = config["statements"]["placement"]
    if placement["width"] % placement["heads"]:
        width, heads = placement["width"], placement["heads"]
        yield f"statements.placement.heads = {heads}: expected a divisor of width = {width}"


def _norm_faults(config: Mapping[str, Any]) -> Iterator[str]:
    own = config["norms"]
    for name in own:
        if name in (*BUILT_IN_NORMS, "layernorm_qk"):
            yield f"norms.{name}: this name is a built-in variant; choose another"
    used: dict[str, set[int]] = {}
    for key, variant, dim, extra in _variants(config):
        if variant in own:
            used.setdefault(variant, set()).add(dim)
        elif variant not in (*BUILT_IN_NORMS, *extra):
            names = ", ".join([*BUILT_IN_NORMS, *extra, *own])
            yield f"{key}: unknown variant {variant!r}; expected one of {names}"
    if used:
        from layernorm_roles import norms  # torch takes a second to import: only for norms of one's own
    for name, dims in used.items():
        for dim in sorted(dims):
            try:
                norms.build(own[name], dim)
            except ValueError as error:
                yield f"norms.{name}: {error}"
                break
