"""The hash of code tells what computes something else, and nothing more; each stage names the rooms that it reaches."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from layernorm_roles import catalogue, rooms

ROOT = Path(__file__).parents[1]
CODE = '''"""A module."""
from math import (
    pi,
)

NAMES = {"key", "query", "head"}  # a set


class Norm:
    """A norm."""

    factor: float = 2.0
    """What multiplies."""

    def forward(self, x):
        """The result."""
        return self.factor * x if str(x) in {"a", "b"} else x
'''


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package of one room with a module, a table and a template, in place of this one."""
    (tmp_path / "room").mkdir()
    for name, text in {
        "norm.py": CODE,
        "table.csv": "a,b\n",
        "page.html.j2": "<p>",
        "text.yaml": "a: 1",
    }.items():
        (tmp_path / "room" / name).write_text(text)
    monkeypatch.setattr(rooms, "PACKAGE", tmp_path)
    return tmp_path


def digest(*packages):
    rooms.digest.cache_clear()
    rooms._meaning.cache_clear()
    return rooms.digest(("room",), packages)


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("norm.py", '"""The result."""', '"""Another sentence."""', False),
        ("norm.py", '"""What multiplies."""', '"""Another sentence."""', False),
        ("norm.py", '        """The result."""\n', "", False),
        ("norm.py", "# a set", "# three names\n\n\n", False),
        ("norm.py", "(\n    pi,\n)", "pi", False),
        ("norm.py", "2.0", "2.5", True),
        ("norm.py", "self.factor * x", "x * self.factor", True),
        ("norm.py", '"head"', '"layer"', True),
        ("norm.py", '{"a", "b"}', '{"a", "c"}', True),
        ("norm.py", "forward", "backward", True),
        ("table.csv", "a,b", "b,a", True),
        ("page.html.j2", "<p>", "<b>", True),
        ("text.yaml", "1", "1  # one", True),
    ],
)
def test_what_computes_something_else_has_another_hash(house, file, old, new, counts):
    before, path = digest(), house / "room" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert (digest() != before) == counts


def test_a_file_that_is_added_moved_or_renamed_counts(house):
    found = {digest()}
    (house / "room/more.py").write_text("")
    found.add(digest())
    (house / "room/more.py").rename(house / "room/other.py")
    found.add(digest())
    (house / "room/__pycache__").mkdir()
    (house / "room/__pycache__/other.pyc").write_text("")
    assert len(found) == 3 and digest() in found


def test_a_version_counts_and_what_it_was_built_for_does_not(house, monkeypatch):
    versions = iter(["2.13.0+cpu", "2.13.0+cu130", "2.14.0"])
    monkeypatch.setattr(rooms.metadata, "version", lambda name: next(versions))
    found = []
    for _ in range(3):
        rooms._version.cache_clear()
        found.append(digest("torch"))
    rooms._version.cache_clear()
    assert found[0] == found[1] != found[2]


def test_sets_have_one_hash_in_every_process(house):
    program = "from layernorm_roles import rooms; print(rooms.digest(('catalogue.py', 'settings')))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in "123"
    }
    assert len(found) == 1 and len(found.pop()) == 17


def test_a_room_that_is_not_there_is_named(house):
    with pytest.raises(ValueError, match="nowhere: no such room"):
        rooms.digest(("nowhere",))


@pytest.fixture
def norm(tmp_path, monkeypatch):
    """A function from a change to whether it changes the hash of a user's norm, which imports and reads other files."""
    monkeypatch.chdir(tmp_path)
    files = {
        "mine/norm.py": "from mine.parts import factor\nfrom lib.deep import more\nclass Norm: pass\n",
        "mine/__init__.py": "",
        "mine/parts.py": "factor = 2\n",
        "mine/a table.csv": "1,2\n",
        "lib/deep.py": "import numpy\nmore = 1\n",
        "lib/__init__.py": "",
        "config.yaml": "",
        "alone.py": "class Norm: pass\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def changes(file, norm="mine.norm:Norm"):
        rooms._meaning.cache_clear()
        before = rooms.of_norm(norm)
        (tmp_path / file).write_text((tmp_path / file).read_text() + "EDITED = 1\n")
        rooms._meaning.cache_clear()
        return rooms.of_norm(norm) != before

    return changes


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        *((file, True) for file in ("mine/norm.py", "mine/parts.py", "mine/a table.csv", "lib/deep.py")),
        *((file, False) for file in ("alone.py", "config.yaml")),
    ],
)
def test_the_code_of_a_norm_is_its_module_what_it_imports_and_what_lies_beside_it(norm, file, counts):
    assert norm(file) == counts


def test_beside_a_norm_in_the_working_folder_nothing_counts(norm):
    assert norm("alone.py", "alone:Norm") and not norm("config.yaml", "alone:Norm")


def test_a_built_in_norm_has_no_code_of_its_own_and_a_missing_or_broken_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rooms.of_norm("layernorm") is None
    for name in ("nowhere", "nowhere.deep", "json.nowhere"):
        with pytest.raises(ValueError, match=f"module {name} is not in {tmp_path} and not installed"):
            rooms.of_norm(f"{name}:Norm")
    (tmp_path / "broken.py").write_text("class Norm(:\n")
    with pytest.raises(ValueError, match=r"broken\.py: "):
        rooms.of_norm("broken:Norm")


def test_every_file_belongs_to_a_room_of_a_stage_or_is_exempt_with_a_reason():
    everything = {file for file in rooms.files_of(".") if not file.endswith(".pyc")}
    counted = {
        file for stage in catalogue.STAGES.values() for room in stage.rooms for file in rooms.files_of(room)
    }
    exempt = {file for room in catalogue.EXEMPT for file in rooms.files_of(room)}
    assert everything - counted - exempt == {"py.typed"}
    assert all(reason for reason in catalogue.EXEMPT.values())


SCRIPTS = """
download_text prepare_text generate_majority_data train_majority measure_random_keys train_language_model
measure_language_model measure_pretrained measure_geometry measure_fusion train_placement measure_batch_dependence
measure_score_scale collect_table judge_claims draw write_page write_durations write_settings
"""
"""The script of each stage, in the order of the catalogue."""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("layernorm_roles")


@pytest.mark.parametrize("stage", catalogue.STAGES)
def test_no_stage_reaches_a_module_outside_its_rooms(graph, stage):
    script = dict(zip(catalogue.STAGES, SCRIPTS.split(), strict=True))[stage]
    starts = set()
    for node in ast.walk(ast.parse((ROOT / f"workflow/scripts/{script}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("layernorm_roles"):
            names = {f"{node.module}.{alias.name}" for alias in node.names} & graph.modules
            starts |= names or {node.module}
    assert starts - {"layernorm_roles.job"}
    reached = starts.union(
        *(graph.find_upstream_modules(start) for start in starts - {"layernorm_roles.job"})
    )
    own = {
        file for room in (*catalogue.STAGES[stage].rooms, *catalogue.EXEMPT) for file in rooms.files_of(room)
    }
    outside = {module for module in reached if not {path_of(module), path_of(module, "__init__")} & own}
    # A package that only names its parts computes nothing.
    assert {module for module in outside if not is_empty(module)} == set()


def path_of(module, *more):
    return "/".join([*module.split(".")[1:], *more]) + ".py"


def is_empty(module):
    init = rooms.PACKAGE / path_of(module, "__init__")
    return init.is_file() and not any(
        isinstance(node, ast.FunctionDef) for node in ast.parse(init.read_text()).body
    )
