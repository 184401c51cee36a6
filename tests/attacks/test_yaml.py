"""YAML files that mean another thing than they seem to, or too much: refused in one line, at once, before any work."""

import pytest
from default_settings import ROOT

from layernorm_roles import planning
from layernorm_roles.settings import yaml_files


def bomb(levels=9, width=9):
    lines = ["a0: &a0 [x, x, x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nfirst_seed: 1\nfirst_seed: 2\n", "line 3: the key 'first_seed' is there twice"),
        ("majority:\n  d8: {steps: 1, batch_size: 2, steps: 3}\n", "line 2: the key 'steps' is there twice"),
        ("first_seed: 1:30\n", "line 1: 1:30 is a number to the base 60 in YAML"),
        ("x: [1, -2:30:30.5]\n", "line 1: -2:30:30.5 is a number to the base 60"),
        (bomb(), "over 100,000 values with all aliases written out"),
        ("first_seed: " + "[" * 500 + "]" * 500, "line 1: nested more than 30 levels deep"),
        ("a: " + "{b: " * 400, "nested more than 30 levels deep"),
        ("first_seed: [1, 2\nname: x", "no YAML: "),
        ("first_seed: 0100\n", "line 1: 0100 is a number to the base 8"),
        ("majority: {[d8, d3]: {}}\n", "no YAML: while constructing a mapping"),
        ("name: a\n---\nname: b\n", "no YAML: expected a single document"),
        ("- name: a\n", "expected keys with values"),
        (b"name: \xff\n", "no YAML: 'utf-8' codec"),
        ("name: \x07\n", "no YAML: "),
        ("name: !mine a\n", "line 1: the tag !mine; expected a plain value, or a text in quotes"),
        ("name: a\nx: !!python/name:os.system\n", "line 2: the tag tag:yaml.org,2002:python/name:os.system"),
        ("x: !!python/object:os.system {}\n", "line 1: the tag tag:yaml.org,2002:python/object:os.system"),
    ],
)
def test_an_overlay_that_misleads_is_refused_in_one_line(tmp_path, text, says):
    file = tmp_path / "mine.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError) as error:
        planning.configured(ROOT / "config.yaml", {}, [file])
    assert says in str(error.value)
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_what_is_meant_is_read(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        'a: &some {x: 1, y: 2}\nb: {<<: *some, x: 3}\nc: ["1:30", *some, *some]\nd: {a: {x: 1}, b: {x: 1}}\n'
        "e: 12:70\nf: 2026-01-01\n",
        encoding="utf-8",
    )
    read = yaml_files.read(file)
    assert read["b"] == {"x": 3, "y": 2} and read["c"][0] == "1:30" and read["e"] == "12:70"


@pytest.mark.parametrize("file", [*sorted((ROOT / "workflow/presets").glob("*.yaml")), ROOT / "config.yaml"])
def test_the_own_files_are_read(file):
    yaml_files.read(file)
