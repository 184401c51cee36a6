"""From the mapping that config.yaml and its overlays give to checked settings, and from a fault to a sentence."""

from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any

from pydantic import ValidationError

from layernorm_roles.settings.json_schema import NAMED, json_schema
from layernorm_roles.settings.reproduction import Settings

RENAMED = {"seeds_per_job": "runs_per_job", "in_one_job": "runs_per_job"}
"""The keys that config.yaml had in earlier versions, and what they are called now."""


def load(config: Mapping[str, Any]) -> Settings:
    """Return the settings that `config` gives.

    Raises ValueError with one line for each fault: the key, its value, and what is allowed there.
    """
    try:
        settings = Settings.model_validate(resolve(config))
    except ValidationError as error:
        faults = list(_without_inherited(error.errors(include_url=False), config))
        # pydantic counts the items that it accepts: a list of wrong items is too short for it besides.
        real = (fault for fault in faults if fault["type"] != "too_short" or not fault["input"])
        raise _unusable(map(_explain, real)) from None
    if faults := list(_norm_faults(settings)):
        raise _unusable(faults)
    return settings


def _without_inherited(faults: list[Any], config: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the faults but those that an entry has from the one that it is `like`, where they are reported."""
    of_faults = [_walk([part for part in fault["loc"] if part != "[key]"])[0] for fault in faults]
    places = set(map(tuple, of_faults))
    for fault, names in zip(faults, of_faults, strict=True):
        match names:
            case [section, name, key, *rest] if section in NAMED:
                entry = config[section][name]
                if key not in entry and (section, entry.get("like"), key, *rest) in places:
                    continue
        yield fault


def resolve(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` with `only`, `like` and null carried out, so that the entries of the sections in NAMED are complete.

    `only: [a, b]` in a section keeps its entries a and b alone. `like: a` in an entry takes from a every key that the
    entry does not name; a key that holds keys of its own, as `seeds` does, is taken as a whole or not at all. An entry,
    or a variant among the seeds, whose value is null is left out. Raises ValueError if `only` or `like` names no entry
    that is there.
    """
    there = [name for name in NAMED if isinstance(config.get(name), Mapping)]
    return {**config, **{name: _resolved(name, config[name]) for name in there}}


def _resolved(section: str, written: Mapping[str, Any]) -> dict[str, Any]:
    only = written.get("only")
    entries = {name: entry for name, entry in written.items() if name != "only" and entry is not None}
    keep = [*entries] if only is None else only if isinstance(only, list) else [only]
    if only is not None and not (keep and all(isinstance(name, str) and name in entries for name in keep)):
        kinds, known = f"{NAMED[section]}s", ", ".join(map(str, entries))
        raise _unusable([f"{section}.only = {only!r}: expected a list of {kinds}, some of {known}"])
    return {name: _complete(section, name, entries) for name in keep}


def _complete(section: str, name: str, entries: Mapping[str, Any], seen: tuple[str, ...] = ()) -> Any:
    entry = entries[name]
    if not isinstance(entry, Mapping):
        return entry
    entry = dict(entry)
    base = entry.pop("like", None)
    if base is None:
        return _without_null_seeds(entry)
    if not isinstance(base, str) or base not in entries or base in (*seen, name):
        others = ", ".join(str(other) for other in entries if other != name) or "none is there"
        expected = f"another {NAMED[section]} that is not left out: {others}"
        raise _unusable([f"{section}.{name}.like = {base!r}: expected {expected}"])
    inherited = _complete(section, base, entries, (*seen, name))
    return _without_null_seeds({**inherited, **entry} if isinstance(inherited, Mapping) else entry)


def _without_null_seeds(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(entry.get("seeds"), Mapping):
        return entry
    return {**entry, "seeds": {name: n for name, n in entry["seeds"].items() if n is not None}}


def _unusable(faults) -> ValueError:
    return ValueError("the configuration is not usable:\n" + "\n".join(f"  {fault}" for fault in faults))


def _explain(fault: Mapping[str, Any]) -> str:
    """One line for a fault that pydantic found: the key, the value, and what is allowed."""
    place = [part for part in fault["loc"] if part != "[key]"]
    (names, schema), (_, above) = _walk(place), _walk(place[:-1])
    key = ".".join(names) or "(top level)"
    if "[key]" in fault["loc"]:
        schema = above.get("propertyNames", {})
        allowed = schema.get("description") or _allowed(schema) or fault["msg"]
        return f"{key}: unknown name {fault['input']!r}; expected {allowed}"
    value = fault["input"]
    match fault["type"]:
        case "combination":
            inner = fault["ctx"]
            return f"{'.'.join([*names, inner['key']])} = {inner['value']}: expected {inner['expected']}"
        case "extra_forbidden" | "invalid_key":
            if place[-1] in RENAMED:
                return f"{key}: this key is now called {RENAMED[place[-1]]}, see config.yaml"
            known = ", ".join(above.get("properties", {}))
            return f"{'.'.join(names[:-1]) or '(top level)'}: unknown key {place[-1]!r}; known are {known}"
        case "missing":
            return f"{key}: this key is missing; expected {_allowed(schema)}"
        case "union_tag_not_found" | "union_tag_invalid":
            tag, kinds = schema["discriminator"]["propertyName"], schema["discriminator"]["mapping"]
            return f"{key}.{tag} = {value.get(tag)!r}: expected one of {', '.join(map(repr, kinds))}"
        case "distinct" | "order":
            return f"{key} = {value!r}: {fault['msg']}"
    is_unquoted = fault["type"] == "string_type" and not isinstance(value, list | dict | None)
    expected = (_allowed(schema) or fault["msg"]) + ("; put it in quotes" if is_unquoted else "")
    return f"{key} = {shorten(repr(value), 200, placeholder=' ...')}: expected {expected}"


def _walk(place: list[Any]) -> tuple[list[str], Mapping[str, Any]]:
    """The names of the keys on the way to `place`, and the part of the JSON schema that the value there must fit.

    `place` is what pydantic gives. Its steps are keys of config.yaml, but for one more, which has no name, where a
    value may be of one of several classes, or may stand for a list of that value alone.
    """
    whole = json_schema()

    def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = {**whole["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
            schema.pop("$ref")
        options = schema.get("anyOf", [])
        for option in _values(options):
            schema = {**schema, **resolved(option)}
        return {**schema, "null": True} if len(_values(options)) < len(options) else schema

    names, schema = [], resolved(whole)
    for part in place:
        if "discriminator" in schema:
            schema = resolved({"$ref": schema["discriminator"]["mapping"][part]})
            continue
        if isinstance(part, int):
            if len(_values(schema.get("anyOf", []))) < 2:
                names.append(str(part))
            items = schema.get("prefixItems") or [schema.get("items", {})] * (part + 1)
            schema = resolved(items[part]) if part < len(items) else {}
        else:
            names.append(str(part))
            entries = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
            entry = next((entry for entry in entries if isinstance(entry, Mapping)), {})
            schema = resolved(schema.get("properties", {}).get(part, entry))
    return names, schema


def _values(options: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The schemas in `options` that allow other values than null."""
    return [option for option in options if option.get("type") != "null"]


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
    if len(options := _values(schema.get("anyOf", []))) > 1:
        return " or ".join(map(_allowed, options))
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    if "pattern" in schema:
        return schema.get("description", f"a text like {schema['pattern']}")
    limits = " and ".join(f"{text} {schema[name]}" for name, text in _LIMITS.items() if name in schema)
    kind = {"object": "keys with values", "array": "a list"}.get(schema.get("type"), schema.get("type", ""))
    return f"{kind} {limits}".strip() + (" or null" if schema.get("null") else "")


def _norm_faults(settings: Settings) -> Iterator[str]:
    """Yield a line for every norm of the user's own that cannot be built for a size at which it is used."""
    sizes: dict[str, set[int]] = {}
    for use in settings.variants_used():
        if use.variant in settings.norms:
            sizes.setdefault(use.variant, set()).update(use.sizes)
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
