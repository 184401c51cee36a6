"""Reading of YAML files in which a mapping with a repeated key is an error: PyYAML would keep its last value."""

from pathlib import Path
from typing import Any

import yaml


class LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's safe loader, compiled where available, which raises an error if a key occurs twice in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping that `node` contains; a repeated key raises ConstructorError, with line and column."""
        written = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(written):
            if key.value in [earlier.value for earlier in written[:number]]:
                fault = f"the key {key.value!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
        return super().construct_mapping(node, deep)


def read(path: str | Path) -> dict[Any, Any]:
    """The mapping that the YAML file at `path` contains, as a dict.

    Raises ValueError if the file cannot be read, is not YAML in UTF-8, or holds no mapping, or if a key is repeated.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=LOADER)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected keys with values, as in config.yaml")
    return content
