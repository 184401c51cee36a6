"""The JSON schema of config.yaml, with which editors complete and check that file."""

from typing import Any

from layernorm_roles.settings.loading import NAMED
from layernorm_roles.settings.reproduction import Settings

# pydantic leaves the bounds of a number that is converted first (1e3 to 1000) under the names it uses itself.
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def json_schema() -> dict[str, Any]:
    """The JSON schema of `Settings`, the complete configuration in which all abbreviations are expanded."""
    return _renamed(Settings.model_json_schema())


def for_editors() -> dict[str, Any]:
    """The JSON schema of config.yaml as users write it: no key is required, and abbreviations are allowed.

    `like: a` in an entry takes all keys that the entry lacks from entry a, `only: [a, b]` leaves out all entries of a
    section but a and b, and null in place of an entry leaves that entry out.
    """
    schema = json_schema()
    parts = {name: {**part, "required": []} for name, part in schema["$defs"].items()}
    sections = dict(schema["properties"])
    for name, word in NAMED.items():
        section = sections[name]
        ((pattern, entry),) = section["patternProperties"].items()
        kinds = entry.get("oneOf", [entry])
        like = {
            "type": "string",
            "description": f"The {word} from which all keys are taken that are not named.",
        }
        for kind in kinds:
            part = parts[kind["$ref"].rpartition("/")[2]]
            part["properties"] = {**part["properties"], "like": like}
        only = {"type": "array", "items": {"type": "string"}, "description": f"Each {word} to keep."}
        entries = {pattern.replace("^", "^(?!only$)", 1): {"anyOf": [*kinds, {"type": "null"}]}}
        sections[name] = {**section, "patternProperties": entries, "properties": {"only": only}}
    return {**schema, "$defs": parts, "properties": sections, "required": []}


def _renamed(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {_BOUNDS.get(key, key): _renamed(value) for key, value in schema.items()}
    return [_renamed(item) for item in schema] if isinstance(schema, list) else schema
