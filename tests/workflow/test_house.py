"""What holds for the workflow and the package as a whole."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from checkouts import ROOT, snakemake

import layernorm_roles


def test_lint_has_only_its_wish_for_an_environment_per_rule():
    """The pinned pip packages are the environment of all rules, so no rule names one."""
    done = snakemake(ROOT, "--lint", package=ROOT)
    titles = re.findall(r"^    \* (.+):$", done.stdout, flags=re.MULTILINE)
    assert {*titles} == {"Specify a conda environment or container for each rule."}, done.stdout


def test_every_target_says_what_it_is_and_help_lists_them():
    text = (ROOT / "workflow/rules/targets.smk").read_text(encoding="utf-8")
    targets = ["all", *re.findall(r"^(?:use rule \w+ as|rule) (\w+)", text, re.MULTILINE)]
    assert {"majority", "pretrained", "publish", "help"} <= {*targets}
    lines = snakemake(ROOT, "help", "--quiet", "all", package=ROOT).stdout.splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines if line.startswith("    "))
    assert {*listed} == {*targets} and all(meaning.endswith(".") for meaning in listed.values()), listed


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (
            "statemnts",
            "error: statemnts: no target; expected statements: `snakemake --cores 1 help` lists all",
        ),
        ("results/default/nothing.csv", "MissingRuleException"),
    ],
)
def test_a_mistyped_target_names_the_nearest_and_a_file_is_missed_by_snakemake(target, says):
    done = snakemake(ROOT, target, package=ROOT)
    assert done.returncode == 1 and says in done.stdout, done.stdout
    assert ("no target" in done.stdout) == ("Missing" not in done.stdout)


RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]
PYTHON = [*(ROOT / "src").rglob("*.py"), *(ROOT / "workflow").rglob("*.py")]


def test_of_snakemake_only_what_its_documentation_names_is_used():
    """https://snakemake.readthedocs.io: `workflow.basedir` is the folder of the Snakefile."""
    for file in RULES:
        text = file.read_text(encoding="utf-8")
        bare = re.sub(r'(?m)#.*$|"[^"]*"', "", text)
        assert {*re.findall(r"\bworkflow\.(\w+)", bare)} <= {"basedir"}, file
        imported = re.findall(r"^\s*(?:from|import) (snakemake[\w.]*)", text, re.MULTILINE)
        assert {*imported} <= {"snakemake.utils"}, file


def test_no_private_part_of_another_package_is_used():
    for file in PYTHON:
        text = file.read_text(encoding="utf-8")
        assert not re.search(
            r"import ctypes|\bnumba\.core\.caching\b|\bdispatcher\._|_cache_dir_locator", text
        ), file
        imported = re.findall(r"^\s*from (\w[\w.]*) import (.+)$", text, re.MULTILINE)
        private = [
            names for package, names in imported if re.search(r"(^|[\s,.])_[a-z]", f"{package} {names}")
        ]
        assert not private, (file, private)


@pytest.mark.parametrize("profile", [*(ROOT / "profiles").glob("*/config.yaml")], ids=str)
def test_no_profile_has_configuration(profile):
    """A value given with --config would replace all of it, silently: the device is in config.yaml or a preset."""
    assert "config" not in yaml.safe_load(profile.read_text(encoding="utf-8"))


def test_every_module_imports_only_from_the_floors_below_it():
    """In a process of its own, because import-linter switches off the loggers of the one it runs in."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_package_citation_and_changelog_have_the_version_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert layernorm_roles.__version__ == citation["version"] == newest[1] == project["version"]


def test_a_checkout_that_is_not_installed_has_no_version_and_works(tmp_path):
    shutil.copytree(ROOT / "src/layernorm_roles", tmp_path / "layernorm_roles")
    code = (
        f"import sys; sys.path = ['{tmp_path}', *(path for path in sys.path if 'site-packages' not in path)]"
    )
    command = [sys.executable, "-I", "-S", "-c", f"{code}; import layernorm_roles as l; print(l.__version__)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "unknown\n", done.stderr
