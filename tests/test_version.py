"""The version stands in pyproject.toml; whatever else names one agrees with it."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import layernorm_roles

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def test_package_citation_and_changelog_have_the_version_of_pyproject():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert layernorm_roles.__version__ == citation["version"] == newest[1] == VERSION


def test_a_checkout_that_is_not_installed_has_no_version_and_works(tmp_path):
    shutil.copytree(ROOT / "src/layernorm_roles", tmp_path / "layernorm_roles")
    code = (
        f"import sys; sys.path = ['{tmp_path}', *(path for path in sys.path if 'site-packages' not in path)]"
    )
    command = [sys.executable, "-I", "-S", "-c", f"{code}; import layernorm_roles as l; print(l.__version__)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "unknown\n", done.stderr
