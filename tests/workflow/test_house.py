"""What holds for the workflow and the package as a whole."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/layernorm_roles"


def snakemake(*arguments):
    command = [sys.executable, "-m", "snakemake", *arguments]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


def test_lint_has_only_its_wish_for_an_environment_per_rule():
    """Pinned pip packages are the environment, the same for every rule."""
    done = snakemake("--lint")
    titles = re.findall(r"^    \* (.+):$", done.stderr, flags=re.MULTILINE)
    assert set(titles) <= {"Specify a conda environment or container for each rule."}, done.stderr


def test_the_default_run_can_be_planned_without_importing_torch():
    done = snakemake("--cores", "all", "--dry-run", "--forceall", "--quiet", "rules")
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = subprocess.run(
        [sys.executable, "-c", "import layernorm_roles.config, sys; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
    )
    assert loaded.stdout.strip() == "False"


def imported(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MAY_NOT = {
    "norms.py": ("layernorm_roles.",),
    "store.py": ("layernorm_roles.", "torch"),
    "job.py": ("layernorm_roles.", "torch"),
    "selectability": tuple(
        f"layernorm_roles.{x}" for x in ("text", "majority", "language_model", "evidence")
    ),
    "majority": tuple(f"layernorm_roles.{x}" for x in ("language_model", "evidence", "statements")),
    "language_model": tuple(f"layernorm_roles.{x}" for x in ("majority", "evidence", "statements")),
    "evidence": (
        "torch",
        "numba",
        *(f"layernorm_roles.{x}" for x in ("majority", "language_model", "text", "statements", "norms")),
    ),
    "": ("snakemake",),
}


@pytest.mark.parametrize(
    ("part", "forbidden"), MAY_NOT.items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_who_may_know_whom(part, forbidden):
    path = SOURCE / part
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        for name in imported(file):
            assert not f"{name}.".startswith(tuple(f"{f.rstrip('.')}." for f in forbidden)), (file, name)
