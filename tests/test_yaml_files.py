"""YAML files that mean another thing than they seem to are refused in one line."""

import pytest

from layernorm_roles.settings import yaml_files


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: a\nfirst_seed: 1\nfirst_seed: 2\n", "'first_seed' is there twice"),
        ("majority:\n  d8: {steps: 1, batch_size: 2, steps: 3}\n", "line 2, column 33"),
        ("first_seed: [1, 2\nname: x", "no YAML: "),
        ("majority: {[d8, d3]: {}}\n", "no YAML: while constructing a mapping"),
        ("- name: a\n", "expected keys with values"),
        (b"name: \xff\n", "no YAML: 'utf-8' codec"),
        ("x: !!python/name:os.system\n", "no YAML: could not determine a constructor for the tag"),
    ],
)
def test_a_file_that_misleads_is_refused_in_one_line(tmp_path, text, says):
    file = tmp_path / "mine.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError) as error:
        yaml_files.read(file)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file)) and "\n" not in str(error.value)


def test_equal_keys_in_different_places_and_merged_ones_are_read(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "a: &some {x: 1, y: 2}\nb: {<<: *some, x: 3}\nd: {a: {x: 1}, b: {x: 1}}\n", encoding="utf-8"
    )
    assert yaml_files.read(file)["b"] == {"x": 3, "y": 2}
