"""What a script reaches: an edit of any module marks what depends on it, and nothing else."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib import metadata
from modulefinder import ModuleFinder
from pathlib import Path

import pytest

from layernorm_roles import provenance, random_streams
from layernorm_roles.random_streams import Stream

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "workflow/scripts").glob("*.py"))


def names(files):
    return {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)}


@pytest.fixture
def package(tmp_path):
    """A small project of a script, a package-like working directory, and a data file; returns its folder."""
    (tmp_path / "norms").mkdir()
    (tmp_path / "start.py").write_text('"""Text."""\nfrom norms import deep\nimport math\nimport numpy\n')
    (tmp_path / "norms/deep.py").write_text("from norms.helper import f\nNAME = 'table.yaml'\n")
    (tmp_path / "norms/helper.py").write_text("def f():\n    import norms.lazy\n")
    (tmp_path / "norms/lazy.py").write_text("x = 1\n")
    (tmp_path / "norms/other.py").write_text("x = 1\n")
    (tmp_path / "norms/table.yaml").write_text("a: 1\n")
    return tmp_path


def version(folder):
    """`code_version` of start.py, in a process of its own: files are read once a process."""
    program = "from layernorm_roles.provenance import code_version; print(code_version('start.py'))"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, text=True, capture_output=True, check=True
    ).stdout


def test_imports_are_followed_within_functions_and_to_data_files(package, monkeypatch):
    monkeypatch.chdir(package)
    files, packages = provenance.reached(package / "start.py")
    assert {file.name for file in files} == {"start.py", "deep.py", "helper.py", "lazy.py", "table.yaml"}
    assert packages == {"numpy"}


@pytest.mark.parametrize(
    ("file", "text", "matters"),
    [
        ("norms/lazy.py", "x = 2\n", True),
        ("norms/lazy.py", "# a comment\nx = 1  # another\n", False),
        ("norms/lazy.py", '"""A docstring."""\nx = 1\n"""The docstring of x."""\n', False),
        ("norms/table.yaml", "a: 2\n", True),
        ("norms/other.py", "x = 2\n", False),
    ],
)
def test_an_edit_counts_where_it_is_reached_and_is_no_comment(package, file, text, matters):
    before = version(package)
    (package / file).write_text(text)
    assert (version(package) != before) == matters


def test_a_name_from_a_package_leads_to_the_module_that_defines_it(tmp_path):
    start = tmp_path / "start.py"
    start.write_text("from layernorm_roles.selectability import expected_unselectable\n")
    found = names(provenance.reached(start)[0])
    assert found == {"src/layernorm_roles/gaussian_keys.py"}


BESIDE_THE_WORKFLOW = set(
    "ending.py gpu/choice.py job.py made_from.py planning.py selectability/command_line.py selectability/matrices.py "
    "settings/__main__.py settings/json_schema.py settings/loading.py settings/reproduction.py".split()
)
"""Modules, or the beginnings of their names, behind no result: an edit makes nothing again."""
NAMED_BY_RULES = ("evidence/figures/", "evidence/tables/")
"""Modules that a registry names; the rules add the one that draws or makes their output."""


def test_every_module_is_reached_by_a_script_or_is_known_not_to_be():
    reached = set().union(*(names(provenance.reached(script)[0]) for script in SCRIPTS))
    modules = {
        name for name in names(ROOT.glob("src/layernorm_roles/**/*.py")) if not name.endswith("__init__.py")
    }
    never = {name.removeprefix("src/layernorm_roles/") for name in modules - reached}
    unexpected = {name for name in never if not name.startswith((*BESIDE_THE_WORKFLOW, *NAMED_BY_RULES))}
    assert not unexpected
    assert all(any(name.startswith(known) for name in never) for known in BESIDE_THE_WORKFLOW)


def test_a_file_whose_time_was_set_back_is_read_again(tmp_path):
    """Its size is the same, too; the pause is longer than the steps in which a file system counts time."""
    file, found = tmp_path / "weights", []
    for text in ("old", "new"):
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        found.append(provenance.content_of(file))
        time.sleep(0.02)
    assert found == [hashlib.sha256(text).hexdigest() for text in (b"old", b"new")]


class PackageFinder(ModuleFinder):
    """Python's own finder of imports, which reads the compiled code; it looks at this package alone."""

    def import_hook(self, name, caller=None, fromlist=None, level=-1):
        ours = name.partition(".")[0] == "layernorm_roles"
        return super().import_hook(name, caller, fromlist, level) if ours else None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_is_reached_is_imported(script):
    """A second method: nothing is said to be reached that Python would not import."""
    finder = PackageFinder(path=[str(ROOT / "src")])
    finder.run_script(str(script))
    imported = {Path(module.__file__) for module in finder.modules.values() if module.__file__}
    reached = {file for file in provenance.reached(script)[0] if file.suffix == ".py"}
    assert reached - {script} <= imported


def test_a_module_that_is_not_there_is_an_error(tmp_path):
    (tmp_path / "start.py").write_text("from layernorm_roles.no_such_module import x\n")
    with pytest.raises(ValueError, match=r"start\.py: imports layernorm_roles\.no_such_module"):
        provenance.reached(tmp_path / "start.py")


@pytest.mark.parametrize(
    ("package", "version", "counts"),
    [
        ("numba", "9.9", True),
        ("torch", "1.0", True),
        ("torch", "2.0+cu130", False),
        ("datasets", "1.0", False),
    ],
)
def test_versions_of_packages_that_compute_numbers_count(tmp_path, monkeypatch, package, version, counts):
    (tmp_path / "start.py").write_text(f"import {package}\n")
    monkeypatch.setattr(provenance, "_installed_version", lambda package: "2.0+cpu")
    before = provenance.code_version(tmp_path / "start.py")
    monkeypatch.setattr(provenance, "_installed_version", lambda package: version)
    assert (provenance.code_version(tmp_path / "start.py") != before) == counts


@pytest.mark.parametrize(
    "script", ["draw", "judge_claims", "write_page", "collect_tables", "generate_majority_data"]
)
def test_what_computes_without_torch_does_not_depend_on_it(script):
    assert "torch" not in provenance.reached(ROOT / f"workflow/scripts/{script}.py")[1]


def test_the_commit_is_unknown_outside_of_a_repository(tmp_path):
    copy = tmp_path / "layernorm_roles"
    shutil.copytree(ROOT / "src/layernorm_roles", copy, ignore=shutil.ignore_patterns("__pycache__"))
    program = "from layernorm_roles.provenance import provenance; print(provenance({}, 'cpu')['git_commit'])"
    environment = {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, env=environment)
    assert done.stdout.strip() == "unknown", done.stderr


def test_relative_imports_are_followed_in_packages_within_packages(tmp_path, monkeypatch):
    inner = tmp_path / "own/inner"
    inner.mkdir(parents=True)
    for name, text in {
        "start": "from own.inner.deep import Norm\n",
        "own/__init__": "",
        "own/side": "from numpy import array as a\n",
        "own/inner/__init__": "from .shown import g\n",
        "own/inner/deep": "from ..side import a\nfrom . import near, g\n",
        "own/inner/near": "",
        "own/inner/shown": "",
        "inner": "",  # the sibling of the package's name is not meant
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    files, packages = provenance.reached(tmp_path / "start.py")
    assert {"side.py", "deep.py", "near.py", "shown.py"} <= {file.name for file in files}
    assert "inner.py" not in {file.name for file in files} and packages == {"numpy"}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"seed": 1, "settings": {"steps": 2, "more": 3}}, None),
        ({"seed": 1, "settings": {"steps": 4}}, "settings.steps = 4, expected 2"),
        ({"settings": {"steps": 2}}, "no seed, expected 1"),
        ({}, "no seed, expected 1; no settings.steps, expected 2"),
    ],
)
def test_a_file_that_lacks_or_contradicts_what_is_expected_is_refused(found, words):
    expected = {"seed": 1, "settings": {"steps": 2}}
    with pytest.raises(ValueError, match=rf"a file of another run \({words}\)") if words else nullcontext():
        provenance.refuse_other("a.parquet", found, expected)


def test_of_many_differences_three_are_named():
    expected = {"settings": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}}
    with pytest.raises(ValueError, match=r"\(no settings.a, .*; no settings.c, expected 3 and 2 more\)"):
        provenance.refuse_other("a.parquet", {}, expected)
    with pytest.raises(ValueError, match=r"no settings.c, expected 3\)"):
        provenance.refuse_other("a.parquet", {"settings": {"d": 4, "e": 5}}, expected)


def test_a_file_carries_what_made_it_and_one_of_several_all_their_different_values():
    one = provenance.provenance({"b": 2, "a": 1}, "a card", Stream.FUSION, torch=True)
    config = b'{"a": 1, "b": 2}'
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    known = {
        "config": config.decode(),
        "config_sha256": hashlib.sha256(config).hexdigest(),
        "device": "a card",
    }
    known |= {"version": metadata.version("layernorm-roles"), "git_commit": head.stdout.strip() or "unknown"}
    known |= {"torch": metadata.version("torch"), "python": platform.python_version()}
    assert one == known | {"seed_rule": random_streams.describe((Stream.FUSION,), torch=True)}
    other = one | {"device": "another", "torch": "1.0"}
    joined = provenance.joined([one, other, one], {"c": 3})
    several = {"config": '{"c": 3}', "device": "a card, another", "torch": f"1.0, {one['torch']}"}
    assert joined == one | several | {"config_sha256": hashlib.sha256(b'{"c": 3}').hexdigest()}
