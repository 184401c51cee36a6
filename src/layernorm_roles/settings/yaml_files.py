"""YAML files of settings: what YAML would read in another sense than its writer's is refused."""

import re
from collections.abc import Iterable
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
        _Walk(path).through(yaml.parse(text, Loader=LOADER))
        content = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected keys with values, as in config.yaml")
    return content


class _Walk:
    """A walk through the events of a YAML file, with the mappings and lists that are open."""

    def __init__(self, path: str | Path):
        self.path, self.size, self.anchors = path, 0, {}
        self.open: list[_Collection] = []

    def through(self, events: Iterable[yaml.Event]) -> None:
        """Take every event. Raises ValueError with the line of the first fault."""
        for event in events:
            if isinstance(event, yaml.CollectionEndEvent):
                closed = self.open.pop()
                self.anchors[closed.anchor] = self.size - closed.size_before
            elif isinstance(event, yaml.NodeEvent):
                self._enter(event)

    def _enter(self, event: yaml.NodeEvent) -> None:
        line = event.start_mark.line + 1
        scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
        if self.open and self.open[-1].is_mapping:
            self.open[-1].is_key = not self.open[-1].is_key
            if self.open[-1].is_key and scalar is not None:
                if scalar in self.open[-1].keys:
                    raise ValueError(
                        f"{self.path}, line {line}: the key {scalar!r} is there twice; expected once"
                    )
                self.open[-1].keys.add(scalar)
        if getattr(event, "tag", None) not in (None, "!"):
            raise ValueError(
                f"{self.path}, line {line}: the tag {event.tag}; expected a plain value, or a text in quotes"
            )
        if scalar is not None and event.implicit[0] and _OTHER_BASE.fullmatch(scalar):
            raise ValueError(
                f"{self.path}, line {line}: {scalar} is a number to the base {60 if ':' in scalar else 8} in YAML; "
                "expected a number, or a text in quotes"
            )
        self.size += self.anchors.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if isinstance(event, yaml.CollectionStartEvent):
            self.open.append(_Collection(isinstance(event, yaml.MappingStartEvent), event.anchor, self.size))
        if self.size > LARGEST:
            raise ValueError(
                f"{self.path}, line {line}: over {LARGEST:,} values with all aliases written out"
            )
        if len(self.open) > DEEPEST:
            raise ValueError(f"{self.path}, line {line}: nested more than {DEEPEST} levels deep")


class _Collection:
    """An open mapping or list: the keys that it has so far, and the number of values before it."""

    def __init__(self, is_mapping: bool, anchor: str | None, size_before: int):
        self.is_mapping, self.anchor, self.size_before = is_mapping, anchor, size_before
        self.keys: set[str] = set()
        self.is_key = False
