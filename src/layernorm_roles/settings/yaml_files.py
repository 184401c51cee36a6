"""Reading of YAML files without the traps of YAML 1.1: repeated keys, octal integers and integers in base 60.

PyYAML would keep the last value of a repeated key, and read 0100 as 64 and 1:30 as 90.
"""

import re
from pathlib import Path
from typing import Any

import yaml


class LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's safe loader, compiled where available, which refuses repeated keys and numbers that mislead."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping that `node` contains; a repeated key raises ConstructorError, with line and column."""
        written = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(written):
            if key.value in [earlier.value for earlier in written[:number]]:
                raise _error(key, f"the key {key.value!r} is there twice")
        return super().construct_mapping(node, deep)

    def _plain_decimal(self, node: yaml.ScalarNode) -> int | float:
        if ":" in node.value or re.match(r"[-+]?0[0-9_]+$", node.value):
            raise _error(node, f"{node.value}: expected a number in base 10 without a leading 0, or quotes")
        of_yaml = super().construct_yaml_int if node.tag.endswith(":int") else super().construct_yaml_float
        return of_yaml(node)


for _kind in ("int", "float"):
    LOADER.add_constructor(f"tag:yaml.org,2002:{_kind}", LOADER._plain_decimal)


def _error(node: yaml.Node, fault: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, fault, node.start_mark)


def read(path: str | Path) -> dict[Any, Any]:
    """The mapping in the YAML file at `path`; ValueError, with the path, if there is none or `LOADER` refuses it."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=LOADER)
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected keys with values, as in config.yaml")
    return content
