"""Whether the rule of a claim is older than the data that it judges: a hash of the rule, when a run began and today.

The rule of a claim is its test with all that the test reaches in evidence.claims and evidence.analysis, function by
function, the values that these name, the texts of the claim, and the settings of the runs that it reads. Comments,
docstrings, annotations and formatting do not count, nor do functions elsewhere but by name.
"""

import ast
import hashlib
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

from layernorm_roles import files
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims.rules import Claim

ROOMS = ("layernorm_roles.evidence.claims", "layernorm_roles.evidence.analysis")
"""The packages whose functions are a part of a rule."""

RESULTS = ("data", "runs", "parquet")
"""Folders of a reproduction of which one is there once its first job has begun."""

SETTINGS = {
    "majority_metrics": "majority",
    "majority_vectors": "majority",
    "random_keys": "random_keys",
    "language_model_metrics": "language_model",
    "key_selectability": "language_model",
    "pretrained_keys": "pretrained",
    "attention_ceilings": "pretrained",
    "ones_share": "pretrained",
    "projection_shift": "pretrained",
    "gaussian_law": "random_keys",
    "placement_gradients": "placement",
    "placement_scales": "placement",
    "untrained_gradients": "placement",
    "position_probe": "placement",
}
"""Where the settings of a table stand: a key of config.yaml, or an experiment of its key `statements`, for which the
name of the table stands where the two are equal."""


def rule_hashes(claims: Iterable[Claim], settings: Mapping[str, Any]) -> dict[str, str]:
    """The hash of every claim's rule, of 16 hexadecimal digits, by the claim's name.

    `settings` are those of the reproduction, with the keys of config.yaml.
    """
    return {claim.name: _hash(claim, settings) for claim in claims}


def record(path: str | Path, claims: Iterable[Claim], settings: Mapping[str, Any]) -> None:
    """Write the hashes of the claims' rules as JSON to `path`, unless there are results beside it already.

    Where results have been made since, the record that is there, or that there is none, stays as it is.
    """
    if not any(Path(path).with_name(folder).exists() for folder in RESULTS):
        files.write_text(path, json.dumps(rule_hashes(claims, settings), indent=1, sort_keys=True) + "\n")


def recorded(path: str | Path | None) -> dict[str, str]:
    """The hashes that `record` wrote to `path`; none if there is no such file. ValueError for another file."""
    if path is None or not Path(path).exists():
        return {}
    found = json.loads(files.read_bytes(path))
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not a record of the rules of claims")
    return found


def when(today: str, at_the_start: str | None) -> str:
    """The column rule_fixed of table claims: "before" the data if the rule is that of the run's start, else "after"."""
    return "before" if today == at_the_start else "after"


def _hash(claim: Claim, settings: Mapping[str, Any]) -> str:
    texts = (
        claim.statement,
        claim.setting,
        claim.statistic,
        claim.control,
        claim.rule,
        claim.unit,
        claim.role,
    )
    parts = {
        "texts": texts,
        "code": sorted(_reached(claim.test)),
        "settings": {name: _settings(claim, name, settings) for name in ("first_seed", *claim.tables)},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _settings(claim: Claim, table: str, settings: Mapping[str, Any]) -> Any:
    """The settings behind a table, of the experiments and models alone that the claim reads, where it names any."""
    name = SETTINGS.get(table, table)
    section = settings.get(name, settings.get("statements", {}).get(name))
    if isinstance(section, Mapping) and set(claim.of) & set(section):
        return {part: section[part] for part in claim.of if part in section}
    return section


def _reached(start: Any) -> set[str]:
    """The text of every function and class of ROOMS that `start` reaches, and of every value that these name."""
    found: dict[int, str] = {}
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in found:
            continue
        if isinstance(thing, partial):
            waiting += [thing.func, *thing.args, *thing.keywords.values()]
            found[id(thing)] = f"partial {sorted(thing.keywords)}"
        elif thing is reported:
            found[id(thing)] = _text(reported())
        elif getattr(thing, "__module__", "").startswith(ROOMS) and (
            inspect.isfunction(thing) or inspect.isclass(thing)
        ):
            tree = _bare(thing)
            found[id(thing)] = ast.unparse(tree)
            waiting += _named(tree, inspect.getmodule(thing))
        else:
            found[id(thing)] = _text(thing)
    return set(found.values())


@cache
def _bare(thing: Any) -> ast.AST:
    """The syntax tree of a function or class, without docstrings and annotations."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [part for part in body if not _is_text(part)] or [ast.Pass()]
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, ast.Constant(None))
    return tree


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _named(tree: ast.AST, module: ModuleType) -> Iterator[Any]:
    """What the names of a tree stand for in its module, and the attributes of modules of ROOMS that it names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and hasattr(module, node.id):
            thing = getattr(module, node.id)
            if not isinstance(thing, ModuleType):
                yield thing
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = getattr(module, node.value.id, None)
            if isinstance(owner, ModuleType) and owner.__name__.startswith(ROOMS):
                yield getattr(owner, node.attr)


def _text(value: Any) -> str:
    """A value as a text that is equal in every process; of what is no value its name."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"set of {sorted(map(_text, value))}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
