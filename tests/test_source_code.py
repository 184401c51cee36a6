"""The hash of code tells what computes something else, and no more; each stage names the sources it reaches."""

import ast
import re

import grimp
import pytest
from default_settings import ROOT

from layernorm_roles import catalogue, compiling, source_code

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


@claim(kind="paper")
def faster(test):
    """It is."""
'''
HOUSE = {"norm.py": CODE, "table.csv": "a,b\n", "page.html.j2": "<p>", "text.yaml": "a: 1"}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of one folder with a module, a table and a template, in place of this one."""
    (tmp_path / "code").mkdir()
    for name, text in HOUSE.items():
        (tmp_path / "code" / name).write_text(text)
    monkeypatch.setattr(source_code, "PACKAGE", tmp_path)
    return tmp_path


def digest(*packages):
    for cached in (source_code.digest, source_code._meaning, source_code._version):
        cached.cache_clear()
    return source_code.digest(("code",), packages)


@pytest.mark.parametrize(
    ("file", "old", "new", "counts"),
    [
        ("norm.py", '"""The result."""', '"""Another sentence."""', False),
        ("norm.py", '"""It is."""', '"""Another sentence, which readers see."""', True),
        ("norm.py", '"""What multiplies."""', '"""Another sentence."""', False),
        ("norm.py", '        """The result."""\n', "", False),
        ("norm.py", "# a set", "# three names\n\n\n", False),
        ("norm.py", "(\n    pi,\n)", "pi", False),
        ("norm.py", "2.0", "2.5", True),
        ("norm.py", '{"a", "b"}', '{"a", "c"}', True),
        ("norm.py", "forward", "backward", True),
        ("table.csv", "a,b", "b,a", True),
        ("page.html.j2", "<p>", "<b>", True),
        ("text.yaml", "1", "1  # one", True),
    ],
)
def test_what_computes_something_else_has_another_hash(package, file, old, new, counts):
    before, text = digest(), HOUSE[file]
    assert old in text
    (package / "code" / file).write_text(text.replace(old, new))
    assert (digest() != before) == counts


def test_a_file_that_is_added_moved_or_renamed_counts(package):
    found = {digest()}
    (package / "code/more.py").write_text("")
    found.add(digest())
    (package / "code/more.py").rename(package / "code/other.py")
    found.add(digest())
    (package / "code/__pycache__").mkdir()
    (package / "code/__pycache__/other.pyc").write_text("")
    assert len(found) == 3 and digest() in found
    with pytest.raises(ValueError, match="nowhere: no such file"):
        source_code.digest(("nowhere",))


def test_a_version_counts_and_what_it_was_built_for_does_not(package, monkeypatch):
    versions = iter(["2.13.0+cpu", "2.13.0+cu130", "2.14.0"])
    assert digest("no-such-package") != digest(), "it may be installed later"
    monkeypatch.setattr(
        source_code.metadata, "version", lambda name: next(versions) if name == "torch" else "1"
    )
    found = [digest("torch", "numpy") for _ in range(3)]
    source_code._version.cache_clear()
    assert found[0] == found[1] != found[2]


OWN = {
    "mine/norm.py": "from mine.parts import factor\nfrom lib.deep import more\nclass Norm: pass\n",
    "mine/__init__.py": "",
    "mine/parts.py": "factor = 2\n",
    "mine/a table.csv": "1,2\n",
    "lib/deep.py": "import numpy\nmore = 1\n",
    "lib/__init__.py": "",
    "config.yaml": "",
    "alone.py": "class Norm: pass\n",
    "mine/deep/notes.txt": "",
    "mine/__pycache__/norm.pyc": "",
}
OF_MINE = {*OWN} - {"alone.py", "config.yaml", "lib/__init__.py", "mine/__pycache__/norm.pyc"}


@pytest.mark.parametrize(
    ("norm", "counts"),
    [("mine.norm", OF_MINE), ("alone", {"alone.py"}), ("lib", {"lib/deep.py"}), ("parts", {"mine/parts.py"})],
)
def test_the_code_of_a_norm_is_what_it_imports_and_what_lies_beside_it(tmp_path, monkeypatch, norm, counts):
    """But in the working folder, and in those of Python's path, where anything may lie."""
    monkeypatch.chdir(tmp_path)
    if norm == "parts":
        monkeypatch.syspath_prepend(tmp_path / "mine")
    for name, text in OWN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = set()
    for name in {*OWN} - {"lib/__init__.py"}:
        before = source_code.of_norm(f"{norm}:Norm")
        (tmp_path / name).write_text(OWN[name] + "EDITED = 1\n")
        source_code._meaning.cache_clear()
        found |= {name} if source_code.of_norm(f"{norm}:Norm") != before else set()
    assert found == counts


def test_a_built_in_norm_has_no_code_of_its_own_and_a_missing_or_broken_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("class Norm(:\n")
    missing = f"is not in {tmp_path} and not installed"
    for name, says in {"nowhere": missing, "json.nowhere": missing, "broken": r"broken\.py: "}.items():
        with pytest.raises(ValueError, match=says):
            source_code.of_norm(f"{name}:Norm")
    assert source_code.of_norm("layernorm") is None


def files_of(names):
    return {file for name in names for file in source_code.files_of(name)}


def test_every_file_belongs_to_a_source_of_a_stage_or_is_exempt():
    everything = {file for file in source_code.files_of(".") if not file.endswith(".pyc")}
    counted = files_of(source for stage in catalogue.STAGES.values() for source in stage.sources)
    assert everything - counted - files_of(catalogue.EXEMPT) == {"py.typed"}


SCRIPTS = """
download_text prepare_text generate_majority_data train_majority measure_random_keys train_language_model
measure_language_model measure_pretrained measure_geometry measure_fusion train_placement measure_batch_dependence
measure_score_scale collect_table judge_claims draw write_page write_durations write_settings
"""
"""The script of each stage, in the order of the catalogue."""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("layernorm_roles")


@pytest.mark.parametrize(("stage", "script"), [*zip(catalogue.STAGES, SCRIPTS.split(), strict=True)])
def test_no_stage_reaches_a_module_outside_its_rooms(graph, stage, script):
    starts = set()
    for node in ast.walk(ast.parse((ROOT / f"workflow/scripts/{script}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("layernorm_roles"):
            names = {f"{node.module}.{alias.name}" for alias in node.names} & graph.modules
            starts |= names or {node.module}
    starts -= {"layernorm_roles.script"}
    assert starts
    own = files_of([*catalogue.STAGES[stage].sources, *catalogue.EXEMPT])
    for module in starts.union({"layernorm_roles.script"}, *map(graph.find_upstream_modules, starts)):
        file, init = (path_of(module, *more) for more in ((), ("__init__",)))
        text = "" if file in own or init in own else (source_code.PACKAGE / init).read_text()
        assert not re.search("(?m)^def ", text), module  # a package that only names its parts is no fault


@pytest.mark.parametrize("stage", catalogue.STAGES)
def test_a_stage_that_compiles_or_runs_networks_names_the_packages_that_compute(stage, monkeypatch):
    sources = [file for file in files_of(catalogue.STAGES[stage].sources) if file.endswith(".py")]
    text = "\n".join((source_code.PACKAGE / file).read_text() for file in sources)
    found = {*re.findall(r"(?m)^ *(?:import|from) (\w+)", text)}
    named = {*catalogue.STAGES[stage].packages}
    without = {*catalogue.EVIDENCE, "geometry", "fusion", "placement", "batch_dependence"}  # of score_scale
    alone = {"download": {"datasets"}, "text": {"mwparserfromhell", "tokenizers"}}.get(stage, set())
    computing = {"matplotlib", "numba", "seaborn", "transformers", *(() if stage in without else ("scipy",))}
    assert named <= found | {"pillow"} and (computing & found) | alone <= named
    assert {"numpy", "torch"} <= named or "numba" not in found
    before = catalogue.code(stage)
    monkeypatch.setattr(source_code, "_version", lambda package: "another")
    source_code.digest.cache_clear()
    assert (catalogue.code(stage) != before) == bool(named)
    source_code.digest.cache_clear()


def test_whatever_compiled_code_is_made_of_is_in_the_name_of_the_folder_that_keeps_it(graph):
    of, compiled = "layernorm_roles.compiling", set()
    for module in graph.find_modules_that_directly_import(of):
        if "njit" in graph.get_import_details(importer=module, imported=of)[0]["line_contents"]:
            compiled |= {module, *graph.find_upstream_modules(module)}
    files = {source_code.PACKAGE / path_of(module) for module in compiled}
    assert len(compiled) > 15
    assert {file for file in files if file.is_file()} <= {*compiling.kernel_sources()}


def path_of(module, *more):
    return "/".join([*module.split(".")[1:], *more]) + ".py"
