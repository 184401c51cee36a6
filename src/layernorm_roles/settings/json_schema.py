"""The JSON schema of config.yaml: for editors, and for the words in which a wrong value is refused."""

from functools import cache
from typing import Any

from layernorm_roles.settings.reproduction import Settings

# pydantic leaves the bounds of a number that is converted first (1e3 to 1000) under the names it uses itself.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


@cache
def json_schema() -> dict[str, Any]:
    """The JSON schema of `Settings`, in which every experiment names all of its keys."""
    return _renamed(Settings.model_json_schema())


def for_editors() -> dict[str, Any]:
    """The JSON schema of config.yaml and its overlays: `json_schema` with `like`, `only` and null, and no required key.

    An overlay names a few keys only, and `settings.resolve` carries out `like`, `only` and null.
    """
    schema = json_schema()
    sections = {name: {**part, "required": []} for name, part in schema["$defs"].items()}
    experiment = dict(sections["MajorityExperiment"])
    experiment["properties"] = {
        **experiment["properties"],
        "like": {
            "type": "string",
            "description": "An experiment from which all keys are taken that are not named.",
        },
    }
    majority = schema["properties"]["majority"]
    pattern = next(iter(majority["patternProperties"]))
    left_out = {"anyOf": [{"$ref": "#/$defs/MajorityExperiment"}, {"type": "null"}]}
    only = {"type": "array", "items": {"type": "string"}, "description": "The experiments to keep."}
    majority = {**majority, "patternProperties": {pattern: left_out}, "properties": {"only": only}}
    return {
        **schema,
        "$defs": {**sections, "MajorityExperiment": experiment},
        "properties": {**schema["properties"], "majority": majority},
        "required": [],
    }


def _renamed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {_BOUNDS.get(key, key): _renamed(value) for key, value in schema.items()}
    return [_renamed(item) for item in schema] if isinstance(schema, list) else schema
