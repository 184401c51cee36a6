"""From the mapping that config.yaml and its overlays give to checked settings, and from a fault to a sentence."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from layernorm_roles.settings.json_schema import json_schema
from layernorm_roles.settings.reproduction import Settings


def load(config: Mapping[str, Any]) -> Settings:
    """Return the settings that `config` gives.

    Raises ValueError with one line for each fault: the key, its value, and what is allowed there.
    """
    try:
        settings = Settings.model_validate(resolve(config))
    except ValidationError as error:
        raise _unusable(_explain(fault) for fault in error.errors(include_url=False)) from None
    if faults := list(_norm_faults(settings)):
        raise _unusable(faults)
    return settings


def resolve(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with `only`, `like` and null carried out, so that each majority experiment has all of its keys.

    `only: [a, b]` beside the experiments keeps a and b alone. `like: d8` in an experiment takes from d8 every key that
    the experiment does not name, `seeds` as a whole or not at all. An experiment, or a variant among the seeds, whose
    value is null is left out. Raises ValueError if `only` or `like` names no experiment that is there.
    """
    config = {key: value for key, value in config.items()}
    experiments = config.get("majority")
    if isinstance(experiments, Mapping):
        only = experiments.get("only")
        chosen = {name: task for name, task in experiments.items() if name != "only" and task is not None}
        keep = chosen if only is None else _selected(only, chosen)
        config["majority"] = {name: _complete(name, chosen) for name in keep}
    if isinstance(models := config.get("language_model"), Mapping):
        config["language_model"] = {name: _without_null_seeds(model) for name, model in models.items()}
    return config


def _selected(only: Any, experiments: Mapping[str, Any]) -> list[str]:
    names = only if isinstance(only, list) else [only]
    unknown = [name for name in names if name not in experiments]
    if unknown or not names:
        known = ", ".join(experiments)
        raise _unusable([f"majority.only = {only!r}: expected a list of experiments, some of {known}"])
    return names


def _complete(name: str, experiments: Mapping[str, Any], seen: tuple[str, ...] = ()) -> Any:
    task = experiments[name]
    if not isinstance(task, Mapping):
        return task
    task = dict(task)
    base = task.pop("like", None)
    if base is None:
        return _without_null_seeds(task)
    if base not in experiments or base in (*seen, name):
        others = ", ".join(other for other in experiments if other != name) or "none is there"
        raise _unusable(
            [f"majority.{name}.like = {base!r}: expected another experiment that is not left out: {others}"]
        )
    inherited = _complete(base, experiments, (*seen, name))
    return _without_null_seeds({**inherited, **task} if isinstance(inherited, Mapping) else task)


def _without_null_seeds(task: Any) -> Any:
    if not isinstance(task, Mapping) or not isinstance(task.get("seeds"), Mapping):
        return task
    return {**task, "seeds": {name: n for name, n in task["seeds"].items() if n is not None}}


def _unusable(faults) -> ValueError:
    return ValueError("the configuration is not usable:\n" + "\n".join(f"  {fault}" for fault in faults))


def _explain(fault: Mapping[str, Any]) -> str:
    """One line for a fault that pydantic found: the key, the value, and what is allowed."""
    place = [part for part in fault["loc"] if part != "[key]"]
    key = ".".join(map(str, place)) or "(top level)"
    if "[key]" in fault["loc"]:
        return (
            f"{key}: unknown name {fault['input']!r}; expected {_allowed_names(place[:-1]) or fault['msg']}"
        )
    value, schema = fault["input"], _schema_at(place)
    match fault["type"]:
        case "combination":
            inner = fault["ctx"]
            return f"{'.'.join([*map(str, place), inner['key']])} = {inner['value']}: expected {inner['expected']}"
        case "extra_forbidden":
            known = ", ".join(_schema_at(place[:-1]).get("properties", {}))
            return f"{'.'.join(map(str, place[:-1])) or '(top level)'}: unknown key {place[-1]!r}; known are {known}"
        case "missing":
            return f"{key}: this key is missing; expected {_allowed(schema)}"
        case "distinct" | "order":
            return f"{key} = {value!r}: {fault['msg']}"
    return f"{key} = {value!r}: expected {_allowed(schema) or fault['msg']}"


def _schema_at(place: list[Any]) -> Mapping[str, Any]:
    """The part of the JSON schema that the value at `place` must fit."""
    whole = json_schema()

    def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = {**whole["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
            schema.pop("$ref")
        for option in schema.get("anyOf", []):
            if option.get("type") != "null":
                schema = {**schema, **resolved(option), "null": True}
        return schema

    schema = resolved(whole)
    for part in place:
        if isinstance(part, int):
            items = schema.get("prefixItems") or [schema.get("items", {})] * (part + 1)
            schema = resolved(items[part]) if part < len(items) else {}
        else:
            entries = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
            entry = next((entry for entry in entries if isinstance(entry, Mapping)), {})
            schema = resolved(schema.get("properties", {}).get(part, entry))
    return schema


def _allowed_names(place: list[Any]) -> str:
    """What the names of the entries at `place` may be, in words."""
    names = _schema_at(place).get("propertyNames", {})
    return names.get("description") or _allowed(names)


_LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "minItems": "of length at least",
    "maxItems": "of length at most",
    "minLength": "of length at least",
}


def _allowed(schema: Mapping[str, Any]) -> str:
    """What a schema allows, in words."""
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(map(repr, schema.get('enum', [schema.get('const')])))}"
    if "pattern" in schema:
        return schema.get("description", f"a text like {schema['pattern']}")
    limits = " and ".join(f"{text} {schema[name]}" for name, text in _LIMITS.items() if name in schema)
    kind = {"object": "keys with values", "array": "a list"}.get(schema.get("type"), schema.get("type", ""))
    return f"{kind} {limits}".strip() + (" or null" if schema.get("null") else "")


def _norm_faults(settings: Settings) -> Iterator[str]:
    """Yield a line for every norm of the user's own that cannot be built for a size at which it is used."""
    sizes: dict[str, set[int]] = {}
    for _, variant, size in settings.variants_used():
        if variant in settings.norms:
            sizes.setdefault(variant, set()).add(size)
    if not sizes:
        return
    from layernorm_roles import norms  # torch takes a second to import, only for norms of one's own

    for name, used in sizes.items():
        for size in sorted(used):
            try:
                norms.build(settings.norms[name], size)
            except ValueError as error:
                yield f"norms.{name}: {error}"
                break
