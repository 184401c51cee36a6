"""The claims as the YAML files of this folder give them, checked.

A file <module>.yaml has parts, each two documents: what the entries of the part have where they say nothing else, and
the entries. An entry has the texts of `claim.Claim`, where {NAMES} in braces are thresholds of `rules`; a text that it
lacks is empty. How it is tested is said by `compare` with a `quantity`, as `pairs` explains, or by

    test     a mapping: `function`, one of TESTS in the module beside the file, and its arguments. Names of numbers, see
             `pairs`, are replaced by the numbers

Besides these it may have

    of       what the claim is about: an experiment of the majority task or a language model. The claim's test, and the
             function that describes the sizes, are given it beside the tables. Entries without it are about whole
             tables.
    also     further experiments or models that the test reads
    gate     trained models that must be clearly better than two baselines, or there is no verdict: a list of mappings
             with `keys_of` or `losses_of`, lists of variants as `language_model.gated` takes them, and `model`, if it
             is not that of the entry
    reported what the source reports for the first comparison, a number or the name of one in `pairs`
    primary  whether the claim is one of about ten that are named before the run, see `Claim.role`
    sizes    a key of sizes.SIZES: what describes the sizes of the run at hand
    again    a list of further claims that change some of the entry's keys: `name` at least, mostly `of` as well.
             `source_adds` and `statement_adds` are appended to the entry's source and statement.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from string import Formatter
from types import ModuleType
from typing import Any

import yaml

from layernorm_roles.evidence.claims import (
    documents,
    language_model,
    pairs,
    pretrained,
    projection,
    rules,
    scaling,
    sizes,
)
from layernorm_roles.evidence.claims.claim import Claim, Outcome, Tables
from layernorm_roles.schemas import SCHEMAS

MODULES = (projection, scaling, language_model, pretrained, documents)
"""The modules with the quantities and functions that the YAML files beside them name, in the order of the page."""

QUANTITIES = {name: quantity for module in MODULES for name, quantity in module.QUANTITIES.items()}
"""The quantities of all modules, by name."""

_TEXTS = (
    "part",
    "source",
    "statement",
    "paper_value",
    "setting",
    "statistic",
    "unit",
    "control",
    "rule",
    "target",
)
_TUPLES = ("tables", "figures", "shown")
_OTHERS = ("name", "of", "also", "gate", "reported", "primary", "sizes", "test", "compare", "quantity")
DEFAULTS = {"paper_value": None, "primary": False, "of": None, "gate": [], "reported": None, "sizes": "none"}
DEFAULTS |= dict.fromkeys(("setting", "unit"), "") | {key: [] for key in ("figures", "shown", "also")}
"""What an entry has where neither it nor its part of the file says anything else."""


def claims() -> Iterator[Claim]:
    """All claims, in the order of the page; ValueError, naming file, claim and key, for an entry that is wrong."""
    for module in MODULES:
        file = Path(module.__file__).with_suffix(".yaml")
        parts = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        entries = [
            common | own
            for common, own_entries in zip(parts[::2], parts[1::2], strict=True)
            for own in own_entries
        ]
        for entry in chain(*(_with_others(DEFAULTS | entry) for entry in entries)):
            try:
                yield claim(entry, module)
            except ValueError as error:
                raise ValueError(f"{file.name}, {entry.get('name')}: {error}") from None


def _with_others(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An entry, and those that its key `again` derives from it."""
    further = entry.pop("again", [])
    yield entry
    for changes in further:
        changes = dict(changes)
        adds = {key: entry[key] + changes.pop(f"{key}_adds", "") for key in ("source", "statement")}
        yield entry | {"primary": False} | adds | changes


def claim(entry: Mapping[str, Any], module: ModuleType) -> Claim:
    """The claim of an entry, with the thresholds filled in; ValueError, naming the key, for one that is wrong."""
    if unknown := [key for key in entry if key not in (*_TEXTS, *_TUPLES, *_OTHERS)]:
        raise ValueError(f"unknown key {unknown[0]!r}")
    if missing := [key for key in (*_TEXTS, "name", "tables") if key not in entry]:
        raise ValueError(f"the key {missing[0]!r} is missing")
    if unknown := [name for name in entry["tables"] if name not in SCHEMAS]:
        raise ValueError(f"unknown table {unknown[0]!r}")
    if entry["sizes"] not in sizes.SIZES:
        raise ValueError(f"unknown sizes {entry['sizes']!r}; expected one of {', '.join(sizes.SIZES)}")
    raw = {key: entry[key] for key in _TEXTS}
    named = {name for text in raw.values() if text for _, name, _, _ in Formatter().parse(text) if name}
    if unknown := sorted(named - set(vars(rules))):
        raise ValueError(f"unknown threshold {unknown[0]!r} in a text")
    of, describe = entry["of"], sizes.SIZES[entry["sizes"]]
    numbers = {
        key: entry[key] for key in ("compare", "quantity", "test", "gate", "reported") if entry.get(key)
    }
    texts = _texts_in(numbers)
    words = sorted({word for text in texts for word in text.split(" ")})
    named |= {word for word in words if word.isupper() and hasattr(rules, word)}
    named |= {name for text in texts if text in QUANTITIES for name in QUANTITIES[text].thresholds}
    numbers |= {name: getattr(rules, name) for name in sorted(named)}
    paper = pairs.reported_numbers()
    numbers |= {word: paper[word] for word in words if word in paper}
    return Claim(
        name=entry["name"],
        **{key: text and text.format_map(vars(rules)) for key, text in raw.items()},
        **{key: tuple(entry[key]) for key in _TUPLES},
        primary=entry["primary"],
        of=(*([of] if of else []), *entry["also"]),
        test=_test(entry, module),
        sizes=partial(describe, of) if of else describe,
        numbers=numbers,
    )


def _texts_in(value: Any) -> set[str]:
    """All texts among the values of nested mappings and lists."""
    if isinstance(value, Mapping):
        return set().union(*map(_texts_in, value.values()))
    if isinstance(value, list | tuple):
        return set().union(*map(_texts_in, value))
    return {value} if isinstance(value, str) else set()


def _test(entry: Mapping[str, Any], module: ModuleType) -> Callable[[Tables], Outcome]:
    """The test of an entry: its comparisons, or the function that it names; behind its gates."""
    if ("test" in entry) == ("compare" in entry):
        raise ValueError("expected one of the keys test and compare")
    if "compare" in entry:
        specs = [pairs.pair(spec, entry, QUANTITIES, first=not i) for i, spec in enumerate(entry["compare"])]
        test = partial(pairs.test, specs, pairs.number(entry["reported"]))
    else:
        test = _named(dict(entry["test"]), entry["of"], module)
    return partial(_behind_gates, test, entry["of"], entry["gate"]) if entry["gate"] else test


def _named(arguments: dict[str, Any], of: str | None, module: ModuleType) -> Callable[[Tables], Outcome]:
    """The function of a module's TESTS with its arguments; ValueError for a name that is not one of its own."""
    name = arguments.pop("function", None)
    if name not in module.TESTS:
        raise ValueError(f"unknown function {name!r}; expected one of {', '.join(module.TESTS)}")
    function = module.TESTS[name]
    numbers = {key: pairs.number(value) if _is_number(value) else value for key, value in arguments.items()}
    positional = [of] if of else []
    try:
        inspect.signature(function).bind({}, *positional, **numbers)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from None
    return lambda tables: function(tables, *positional, **numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and (value.isupper() or value in pairs.reported_numbers())


def _behind_gates(
    test: Callable[[Tables], Outcome], of: str, gates: list[dict[str, Any]], tables: Tables
) -> Outcome:
    outcome = test(tables)
    for gate in gates:
        outcome = language_model.gated(outcome, tables, **{"model": of} | gate)
    return outcome
