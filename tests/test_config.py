"""Every key of config.yaml, spoilt in every way its schema knows, is refused with its name."""

import copy
from pathlib import Path

import pytest
import yaml

from layernorm_roles.config import check

ROOT = Path(__file__).parents[1]
SCHEMA_FILE = ROOT / "workflow/schemas/config.schema.yaml"
SCHEMA = yaml.safe_load(SCHEMA_FILE.read_text())
DEFAULT = yaml.safe_load((ROOT / "config.yaml").read_text())


def merged(base, overlay):
    """As Snakemake lays a --configfile over config.yaml."""
    if not isinstance(overlay, dict) or not isinstance(base, dict):
        return overlay
    return base | {key: merged(base.get(key), value) for key, value in overlay.items()}


def leaves(config, path=()):
    if isinstance(config, dict) and config:
        for key, value in config.items():
            yield from leaves(value, (*path, key))
    yield path


def schema_of(path):
    """The part of the schema that a key's value must fit."""

    def resolved(schema):
        while "$ref" in schema:
            found = SCHEMA
            for step in schema["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            schema = {**found, **{k: v for k, v in schema.items() if k != "$ref"}}
        return schema

    schema = SCHEMA
    for step in path:
        schema = resolved(schema)
        extra = schema.get("additionalProperties")
        schema = schema.get("properties", {}).get(step, extra if isinstance(extra, dict) else {})
    return resolved(schema)


def spoilt(value, schema):
    """Values that must not stand in the place of `value`: other types, and what lies beyond the bounds."""
    yield object  # a type that no configuration has
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if (
        "null" not in kinds
        and "anyOf" not in schema
        and "oneOf" not in schema
        and None not in schema.get("enum", [])
    ):
        yield None
    if "anyOf" in schema:
        yield from ("none of these", 7)
    if kinds & {"integer", "number"}:
        yield "many"
        if "integer" in kinds and "number" not in kinds:
            yield 1.5
        yield float("nan")
        for bound, beyond in (
            ("minimum", -1),
            ("maximum", 1),
            ("exclusiveMinimum", 0),
            ("exclusiveMaximum", 0),
        ):
            if bound in schema:
                yield schema[bound] + beyond
    if "string" in kinds:
        yield 7
        if "pattern" in schema:
            yield from ("../../etc/passwd", "<script>alert(1)</script>", "a; rm -rf ~", "", "a b", "x\n")
    if "enum" in schema:
        yield "none of these"
    if "array" in kinds:
        yield "first"
        if schema.get("minItems"):
            yield []
    if "object" in kinds:
        yield [1]
        yield {**(value or {}), "no-such key": 1} if isinstance(value, dict) else 3


def replaced(path, value):
    config = copy.deepcopy(DEFAULT)
    here = config
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return config


PATHS = [path for path in leaves(DEFAULT) if path]


def value_at(path):
    value = DEFAULT
    for key in path:
        value = value[key]
    return value


def test_the_shipped_configurations_are_accepted():
    check(DEFAULT, SCHEMA_FILE)
    for preset in (ROOT / "workflow/presets").glob("*.yaml"):
        check(merged(DEFAULT, yaml.safe_load(preset.read_text())), SCHEMA_FILE)


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_a_spoilt_value_is_refused_with_the_name_of_its_key(path, mutations):
    tried = 0
    for value in spoilt(value_at(path), schema_of(path)):
        with pytest.raises(ValueError, match="not usable") as error:
            check(replaced(path, value), SCHEMA_FILE)
        assert ".".join(path) in str(error.value), (value, str(error.value))
        tried += 1
    assert tried >= 2
    mutations[".".join(path)] += tried


@pytest.mark.parametrize("path", [p for p in PATHS if isinstance(value_at(p[:-1]), dict)], ids=".".join)
def test_a_misspelt_key_is_refused_with_its_name(path, mutations):
    config = replaced((*path[:-1], f"{path[-1]}_misspelt"), value_at(path))
    parent = config
    for key in path[:-1]:
        parent = parent[key]
    del parent[path[-1]]
    with pytest.raises(ValueError, match="not usable") as error:
        check(config, SCHEMA_FILE)
    assert path[-1] in str(error.value)
    mutations[".".join(path)] += 1


@pytest.mark.parametrize(
    ("overlay", "says"),
    [
        (
            {"majority": {"d8": {"gap": 49}}},
            "majority.d8.gap = 49: expected at most sequence_length - 2 = 48",
        ),
        ({"majority": {"d8": {"classes": 51}}}, "majority.d8.classes = 51: expected at most"),
        (
            {"majority": {"d8": {"steps": 200000}}},
            "majority.d8.steps = 200000: expected at most schedule_steps",
        ),
        ({"majority": {"d8": {"labellings": 1}}}, "expected at most the 69,413 admissible ones"),
        ({"majority": {"d8": {"steps": -5}}}, "majority.d8.steps = -5: expected integer at least 1"),
        (
            {"majority": {"d8": {"seeds": {"layer_norm": 3}}}},
            "unknown variant 'layer_norm'; expected one of layernorm",
        ),
        ({"norms": {"layernorm": "a:B"}}, "norms.layernorm: this name is a built-in variant"),
        (
            {"norms": {"mine": "no_module:Norm"}, "majority": {"d8": {"seeds": {"mine": 1}}}},
            "norms.mine: norm 'no_module:Norm' cannot be imported",
        ),
        ({"name": "published"}, '"published" is reserved'),
        (
            {"language_model": {"gpt": {"heads": 3}}},
            "language_model.gpt.heads = 3: expected a divisor of dim = 8",
        ),
        ({"language_model": {"gpt": {"context": 64}}}, "expected at most language_model.gpt.context = 64"),
        ({"text": {"split": {"training": 0.9}}}, "expected shares that add up to 1"),
        ({"steps": 3}, "unknown key 'steps'"),
    ],
)
def test_values_that_cannot_work_together_are_explained(overlay, says):
    with pytest.raises(ValueError, match="not usable") as error:
        check(merged(DEFAULT, overlay), SCHEMA_FILE)
    assert says in str(error.value)
