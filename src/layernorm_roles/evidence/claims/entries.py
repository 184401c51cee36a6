"""The claims as the YAML files of this folder give them, checked.

A file <module>.yaml has parts, each two documents: what the entries of the part have where they say nothing else, and
the entries. An entry has the texts of `claim.Claim`, where {NAMES} in braces are thresholds of `rules`; a text that it
lacks is empty. How it is tested is said by

    compare  a list of comparisons of a `quantity`, as `comparing` explains, or
    test     a mapping: `function`, one of TESTS in the module beside the file, and its arguments. Names of numbers, see
             `comparing`, are replaced by the numbers

Besides these it may have

    of       what the claim is about: an experiment of the majority task or a language model. The claim's test, and the
             function that describes the sizes, are given it beside the tables. Entries without it are about whole
             tables.
    also     further experiments or models that the test reads
    gate     trained models that must be clearly better than two baselines, or there is no verdict: a list of mappings
             with `keys_of` or `losses_of`, lists of variants as `language_model.gated` takes them, and `model`, if it
             is not that of the entry
    reported what the source reports for the first comparison, a number or the name of one in `comparing`
    primary  whether the claim is one of about ten that are named before the run, see `Claim.role`
    sizes    a key of sizes.SIZES: what describes the sizes of the run at hand
    again    a list of further claims that change some of the entry's keys: `name` at least, mostly `of` as well.
             `source_adds` and `statement_adds` are appended to the entry's source and statement.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from string import Formatter
from types import ModuleType
from typing import Any

import yaml

from layernorm_roles.evidence.claims import (
    comparing,
    documents,
    language_model,
    pretrained,
    projection,
    rules,
    scaling,
    sizes,
)
from layernorm_roles.evidence.claims.claim import Claim, Outcome, Tables
from layernorm_roles.evidence.claims.comparing import one_of
from layernorm_roles.schemas import SCHEMAS

MODULES = (projection, scaling, language_model, pretrained, documents)
"""The modules with the quantities and functions that the YAML files beside them name, in the order of the page."""

QUANTITIES = {name: quantity for module in MODULES for name, quantity in module.QUANTITIES.items()}
"""The quantities of all modules, by name."""

_TEXTS = tuple("part source statement paper_value setting statistic unit control rule target".split())
_LISTS = ("tables", "figures", "shown")
_TESTED = ("compare", "quantity", "test", "gate", "reported")
_KEYS = (*_TEXTS, *_LISTS, *_TESTED, "name", "of", "also", "primary", "sizes")
DEFAULTS = {"paper_value": None, "primary": False, "of": None, "gate": [], "reported": None, "sizes": "none"}
DEFAULTS |= dict.fromkeys(("setting", "unit"), "") | {key: [] for key in ("figures", "shown", "also")}
"""What an entry has where neither it nor its part of the file says anything else."""


def claims() -> Iterator[Claim]:
    """All claims, in the order of the page; ValueError, naming file, claim and key, for an entry that is wrong."""
    for module in MODULES:
        file = Path(module.__file__).with_suffix(".yaml")
        parts = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        for common, entries in zip(parts[::2], parts[1::2], strict=True):
            for entry in (each for own in entries for each in _with_others(DEFAULTS | common | own)):
                try:
                    yield claim(entry, module)
                except ValueError as error:
                    raise ValueError(f"{file.name}, {entry.get('name')}: {error}") from None


def _with_others(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An entry, and those that its key `again` derives from it."""
    further = entry.pop("again", [])
    yield entry
    for changes in further:
        adds = {key: entry[key] + changes.get(f"{key}_adds", "") for key in ("source", "statement")}
        own = {key: value for key, value in changes.items() if not key.endswith("_adds")}
        yield entry | {"primary": False} | adds | own


def claim(entry: Mapping[str, Any], module: ModuleType) -> Claim:
    """The claim of an entry, with the thresholds filled in; ValueError, naming the key, for one that is wrong."""
    for key in entry:
        one_of(_KEYS, key, "key")
    for key in (*_TEXTS, "name", "tables"):
        one_of(entry, key, "entry without the key")
    for name in entry["tables"]:
        one_of(SCHEMAS, name, "table")
    texts = {key: entry[key] for key in _TEXTS}
    filled = {name for text in texts.values() for _, name, *_ in Formatter().parse(text or "") if name}
    for name in filled:
        one_of(vars(rules), name, "threshold")
    of, describe = entry["of"], sizes.SIZES[one_of(sizes.SIZES, entry["sizes"], "sizes")]
    return Claim(
        name=entry["name"],
        **{key: text and text.format_map(vars(rules)) for key, text in texts.items()},
        **{key: tuple(entry[key]) for key in _LISTS},
        primary=entry["primary"],
        of=(*([of] if of else []), *entry["also"]),
        test=_test(entry, module),
        sizes=partial(describe, of) if of else describe,
        numbers=_numbers(entry, filled),
    )


def _numbers(entry: Mapping[str, Any], filled: set[str]) -> dict[str, Any]:
    """The test as the entry has it, and the values of all thresholds and reported numbers that it names."""
    tested = {key: entry[key] for key in _TESTED if entry.get(key)}
    texts = _texts_in(tested)
    words = {word for text in texts for word in text.split(" ")}
    thresholds = filled | {word for word in words if word.isupper() and hasattr(rules, word)}
    thresholds |= {name for text in texts if text in QUANTITIES for name in QUANTITIES[text].thresholds}
    reported = {name: value for name, value in comparing.reported_numbers().items() if name in words}
    return tested | {name: getattr(rules, name) for name in thresholds} | reported


def _texts_in(value: Any) -> set[str]:
    """All texts among the values of nested mappings and lists."""
    if isinstance(value, str):
        return {value}
    values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return set().union(*map(_texts_in, values))


def _test(entry: Mapping[str, Any], module: ModuleType) -> Callable[[Tables], Outcome]:
    """The test of an entry: its comparisons, or the function that it names; behind its gates."""
    if ("test" in entry) == ("compare" in entry):
        raise ValueError("expected one of the keys test and compare")
    if "compare" in entry:
        defaults = {"of": entry["of"], "quantity": entry.get("quantity")}
        specs = [{"role": "effect"} | entry["compare"][0], *entry["compare"][1:]]
        requests = [comparing.request({"role": "context"} | spec, defaults, QUANTITIES) for spec in specs]
        test = partial(comparing.compare, requests, comparing.number(entry["reported"]))
    else:
        test = _named(dict(entry["test"]), entry["of"], module)
    return partial(_behind_gates, test, entry["of"], entry["gate"]) if entry["gate"] else test


def _named(arguments: dict[str, Any], of: str, module: ModuleType) -> Callable[[Tables], Outcome]:
    """The function of a module's TESTS with its arguments; ValueError for a name that is not one of its own."""
    known = getattr(module, "TESTS", {})
    function = known[one_of(known, arguments.pop("function", None), "function")]
    names = {key for key, value in arguments.items() if comparing.names_a_number(value)}
    numbers = arguments | {key: comparing.number(arguments[key]) for key in names}
    try:
        inspect.signature(function).bind({}, of, **numbers)
    except TypeError as error:
        raise ValueError(f"{function.__name__}: {error}") from None
    return lambda tables: function(tables, of, **numbers)


def _behind_gates(
    test: Callable[[Tables], Outcome], of: str, gates: list[dict[str, Any]], tables: Tables
) -> Outcome:
    outcome = test(tables)
    for gate in gates:
        outcome = language_model.gated(outcome, tables, **{"model": of} | gate)
    return outcome
