"""YAML files of settings: what YAML would read in another sense than its writer's is refused."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's safe loader: the compiled one, ten times as fast, where it was built."""
_OTHER_BASE = re.compile(r"[-+]?([0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|0[0-7_]+)")
"""A plain value such as 1:30 or 0100, which YAML 1.1 reads as a number to the base 60 or 8."""
DEEPEST = 30
"""Levels of nesting; the settings have 6."""
LARGEST = 100_000
"""Values of a file, aliases written out; the settings have a few hundred."""


def read(path: str | Path) -> dict[Any, Any]:
    """The keys and values of a YAML file.

    Raises ValueError with the line of the first fault, if the file at `path` has one that its reader would not see: a
    key that is there twice, of which YAML keeps the last; a number to the base 8 or 60; a tag; and nesting or aliases
    that would fill the memory. So is whatever is no YAML in UTF-8, and no keys with values. The file is read event by
    event before: of what it describes nothing is built that is refused.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        for line, fault in _faults(yaml.parse(text, Loader=LOADER)):
            raise ValueError(f"{path}, line {line}: {fault}")
        content = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected keys with values, as in config.yaml")
    return content


@dataclass
class _Collection:
    """A mapping or list that is open: what it holds so far, and the number of values before it."""

    is_mapping: bool
    anchor: str | None
    size_before: int
    nodes: int = 0
    keys: set[str] = field(default_factory=set)


def _faults(events: Iterable[yaml.Event]) -> Iterator[tuple[int, str]]:
    """Yield the faults of a file, each with its line, from the events in it."""
    size, sizes = 0, {}  # the number of values so far, and of those that an anchor names
    unfinished: list[_Collection] = []
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            closed = unfinished.pop()
            sizes[closed.anchor] = size - closed.size_before
        if not isinstance(event, yaml.NodeEvent):
            continue
        line = event.start_mark.line + 1
        scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
        if unfinished:
            inner = unfinished[-1]
            inner.nodes += 1
            if inner.is_mapping and inner.nodes % 2 and scalar is not None:
                if scalar in inner.keys:
                    yield line, f"the key {scalar!r} is there twice; expected once"
                inner.keys.add(scalar)
        if getattr(event, "tag", None) not in (None, "!"):
            yield line, f"the tag {event.tag}; expected a plain value, or a text in quotes"
        if scalar is not None and event.implicit[0] and _OTHER_BASE.fullmatch(scalar):
            kind = f"a number to the base {60 if ':' in scalar else 8} in YAML"
            yield line, f"{scalar} is {kind}; expected a number, or a text in quotes"
        size += sizes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if isinstance(event, yaml.CollectionStartEvent):
            unfinished.append(_Collection(isinstance(event, yaml.MappingStartEvent), event.anchor, size))
        if size > LARGEST:
            yield line, f"over {LARGEST:,} values with all aliases written out"
        if len(unfinished) > DEEPEST:
            yield line, f"nested more than {DEEPEST} levels deep"
