"""Turns the content of config.yaml into checked settings, or into an error that explains each fault in a sentence."""

from collections.abc import Iterator, Mapping
from textwrap import shorten
from typing import Any

from pydantic import ValidationError

from layernorm_roles.settings.reproduction import Settings

NAMED = {
    "majority": "experiment",
    "text": "text",
    "language_model": "model",
    "pretrained": "pretrained model",
}
"""For each section of config.yaml that holds entries under names of the user's choice, the word for such an entry."""


def load(config: Mapping[Any, Any]) -> Settings:
    """Check `config`, the content of config.yaml with a user's files laid over it, and return the settings.

    Raises ValueError with a line for each faulty key, which has its name, its value, and what is allowed.
    """
    complete = resolve(config)
    try:
        settings = Settings.model_validate(complete)
    except ValidationError as error:
        raise _unusable(_explained(error, complete, config)) from None
    if faults := list(_norm_faults(settings)):
        raise _unusable(faults)
    return settings


def resolve(config: Mapping[Any, Any]) -> dict[Any, Any]:
    """A copy of the configuration in which the abbreviations `only`, `like` and null are expanded.

    They are allowed in the sections majority, text, language_model and pretrained. `only: [a, b]` drops all entries of
    the section but a and b. `like: a` in an entry takes every key that the entry lacks from entry a; a mapping, such as
    `seeds`, is taken as a whole. An entry is dropped if it is null or all its `seeds` are 0 or [], and a variant
    is dropped from `seeds` if its number is null. Raises ValueError if `only` or `like` names an entry that does not
    exist, or if all majority experiments, or all language models, are without seeds.
    """
    there = [name for name in NAMED if isinstance(config.get(name), Mapping)]
    return {**config, **{name: _resolved(name, config[name]) for name in there}}


def _resolved(section: str, written: Mapping[Any, Any]) -> dict[Any, Any]:
    only = written.get("only")
    entries = {name: entry for name, entry in written.items() if name != "only" and entry is not None}
    keep = [*entries] if only is None else only if isinstance(only, list) else [only]
    if only is not None and not (keep and all(isinstance(name, str) and name in entries for name in keep)):
        kinds, known = f"{NAMED[section]}s", ", ".join(map(str, entries))
        raise _unusable([f"{section}.only = {only!r}: expected a list of {kinds}, some of {known}"])
    complete = {name: _complete(section, name, entries) for name in keep}
    with_runs = {name: entry for name, entry in complete.items() if not _without_runs(entry)}
    if section != "text" and complete and not with_runs:
        raise _unusable([f"{section}: expected seeds for at least one {NAMED[section]}"])
    return with_runs


def _without_runs(entry: Any) -> bool:
    seeds = entry.get("seeds") if isinstance(entry, Mapping) else None
    return isinstance(seeds, Mapping) and all(n in (0, []) and n is not False for n in seeds.values())


def _complete(section: str, name: Any, entries: Mapping[Any, Any], seen: tuple[Any, ...] = ()) -> Any:
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


def _without_null_seeds(entry: Mapping[Any, Any]) -> Mapping[Any, Any]:
    if not isinstance(entry.get("seeds"), Mapping):
        return entry
    return {**entry, "seeds": {name: n for name, n in entry["seeds"].items() if n is not None}}


def _unusable(faults) -> ValueError:
    return ValueError("the configuration is not usable:\n" + "\n".join(f"  {fault}" for fault in faults))


def _explained(error: ValidationError, complete: Mapping[Any, Any], written: Mapping[Any, Any]) -> list[str]:
    """One line for each key with which pydantic found faults: the key, its value, and what is allowed."""
    faults = [_fault(fault, complete) for fault in error.errors(include_url=False)]
    places, allowed = {place for place, _, _ in faults}, {}
    for place, value, words in faults:
        if not _is_inherited(place, places, written):
            allowed.setdefault(".".join(place) + value, []).append(words)
    return [f"{key}: {', or: '.join(words)}" for key, words in allowed.items()]


def _fault(fault: Mapping[str, Any], config: Mapping[Any, Any]) -> tuple[tuple[str, ...], str, str]:
    """The keys, from the outermost on, at which pydantic's `fault` lies, the text " = value", and pydantic's words.

    pydantic's path has further steps, as for a value of one of several classes or a single value in place of a list.
    """
    place, inside, value, about = [], config, fault["input"], fault.get("ctx", {})
    for part in fault["loc"]:
        of_list = range(len(inside)) if isinstance(inside, list) else ()
        if part in (inside if isinstance(inside, Mapping) else of_list):
            place.append(str(part))
            inside = inside[part]
    match fault["type"]:
        case "missing":
            return (*place, str(fault["loc"][-1])), "", fault["msg"]
        case "misfit":
            place, value = [*place, *about["key"].split(".")], about["value"]
        case "union_tag_invalid" | "union_tag_not_found":
            place.append(key := about["discriminator"].strip("'"))
            value = value.get(key)
    if fault["loc"][-1:] == ("[key]",):
        place.pop()
    return tuple(place), f" = {shorten(repr(value), 200, placeholder=' ...')}", fault["msg"]


def _is_inherited(place: tuple[str, ...], places: set[tuple[str, ...]], written: Mapping[Any, Any]) -> bool:
    """Whether an entry took the fault at `place` over, by `like`, from an entry of which it is reported, too."""
    match place:
        case [section, name, key, *rest] if section in NAMED:
            if isinstance(entry := written[section].get(name), Mapping):
                base = (section, entry.get("like"))
                return key not in entry and not places.isdisjoint({base, (*base, key, *rest)})
    return False


def _norm_faults(settings: Settings) -> Iterator[str]:
    """A line for each norm class of the user that `norms.probe` finds unfit for inputs of the shapes it would get."""
    uses = [use for use in settings.variants_used() if ":" in settings.norm_class(use.variant)]
    if not uses:
        return
    from layernorm_roles import norms  # torch takes a second to import, only for norms of one's own

    faulty = set()
    for name, shape in sorted({(use.variant, shape) for use in uses for shape in use.shapes}):
        try:
            if name not in faulty:
                norms.probe(settings.norm_class(name), shape)
        except ValueError as error:
            faulty.add(name)
            yield f"norms.{name}: {error}"
