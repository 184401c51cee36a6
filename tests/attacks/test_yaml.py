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
        (
            "name: a\nfirst_seed: 1\nfirst_seed: 2\n",
            "line 3: the key 'first_seed' is there twice; expected once",
        ),
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
        (
            "name: a\nmajority: !!python/object:os.system {}\n",
            "line 2: the tag tag:yaml.org,2002:python/object:os",
        ),
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


@pytest.mark.parametrize("steps", [1000, 1e3, "1e3", "1.0e+3", 1000.0])
def test_a_whole_number_may_be_written_in_any_way(steps):
    settings = planning.configured(
        ROOT / "config.yaml", {"majority": {"d8": {"steps": steps, "evaluate_every": steps}}}
    )
    d8 = settings.majority["d8"]
    assert (d8.steps, d8.evaluate_every) == (1000, 1000)
    assert isinstance(d8.steps, int) and isinstance(d8.evaluate_every, int)


@pytest.mark.parametrize(
    ("overlay", "says"),
    [
        (
            {"majority": {"only": ["d8"], "d8": {"test_share": 1e-320}}},
            "majority.d8.test_share = 1e-320: expected a share that puts",
        ),
        (
            {"majority": {"only": ["d8"], "d8": {"test_share": 0.9999999}}},
            "majority.d8.test_share = 0.9999999: expected a share",
        ),
        (
            {
                "majority": {
                    "only": ["d8"],
                    "d8": {"split": "partitions", "sequences": 100, "labellings": 100},
                }
            },
            "majority.d8.test_share = 0.2: expected a share that puts at least one of the 2 partitions",
        ),
        ({"statements": {"batch_dependence": {"padding": []}}}, "statements.batch_dependence.padding = []"),
        (
            {"statements": {"batch_dependence": {"padding": [0.999]}}},
            "statements.batch_dependence.padding = 0.999",
        ),
        ({"statements": {"batch_dependence": {"tokens": 2}}}, "statements.batch_dependence.tokens = 2"),
        (
            {"statements": {"batch_dependence": {"batch_sizes": [1]}}},
            "statements.batch_dependence.batch_sizes = [1]",
        ),
        ({"statements": {"fusion": {"head_factors": [0.5]}}}, "statements.fusion.head_factors = [0.5]"),
        ({"statements": {"geometry": {"offsets": [5]}}}, "statements.geometry.offsets = [5.0]"),
        (
            {"statements": {"geometry": {"offsets": [0, 1, 2, 3]}}},
            "statements.geometry.offsets = [0, 1, 2, 3]",
        ),
        ({"statements": {"geometry": {"dtypes": ["float32"]}}}, "statements.geometry.dtypes = ['float32']"),
        ({"random_keys": {"keys": [9, 3]}}, "random_keys.keys = [9, 3]"),
        ({"random_keys": {"dimensions": [1, 3]}}, "random_keys.dimensions.0 = 1"),
        ({"random_keys": {"precision": {"dimensions": [1, 3]}}}, "random_keys.precision.dimensions.0 = 1"),
    ],
)
def test_settings_that_would_fail_in_a_job_are_refused_with_their_key(overlay, says):
    with pytest.raises(ValueError) as error:
        planning.configured(ROOT / "config.yaml", overlay)
    assert says in str(error.value)
    assert str(error.value).count("\n") == 1, "a heading and the one fault"


def test_the_figure_of_the_exact_expectation_is_left_out_where_nothing_is_expected():
    plan = planning.Plan(planning.configured(ROOT / "config.yaml", {"random_keys": {"keys": [1, 2]}}))
    assert "figure_random_keys_exact" not in plan.figures() and "figure_1c" in plan.figures()
    plan = planning.Plan(planning.configured(ROOT / "config.yaml", {}))
    assert "figure_random_keys_exact" in plan.figures()
