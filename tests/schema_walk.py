"""The keys of a configuration, each with the part of the JSON schema that its value must fit."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from layernorm_roles.settings.json_schema import json_schema

SCHEMA = json_schema()


class Key(NamedTuple):
    """A key below others, what the schema says of it, and its value."""

    place: tuple[str, ...]
    schema: Mapping[str, Any]
    value: Any

    def __str__(self) -> str:
        return ".".join(self.place)


def resolved(schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """The schema with references carried out; of a section of several kinds, that of the kind which `value` names."""
    while "$ref" in schema or "discriminator" in schema:
        if "discriminator" in schema:
            kind = schema["discriminator"]
            schema = {"$ref": kind["mapping"][value[kind["propertyName"]]]}
        schema = {**SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
        del schema["$ref"]
    return dict(schema)


def keys(value: Any, schema: Mapping[str, Any] = SCHEMA, place: tuple[str, ...] = ()) -> Iterator[Key]:
    """Every key of a complete configuration, also of those that hold others."""
    schema = resolved(schema, value)
    if place:
        yield Key(place, schema, value)
    if isinstance(value, dict):
        some = [option for option in schema.get("anyOf", []) if option.get("type") != "null"]
        inner = resolved(some[0], value) if some else schema
        entries = [*inner.get("patternProperties", {}).values(), inner.get("additionalProperties")]
        entry = next((entry for entry in entries if isinstance(entry, dict)), {})
        for name, part in value.items():
            yield from keys(part, inner.get("properties", {}).get(name, entry), (*place, name))
