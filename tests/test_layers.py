"""The floors of the house, as pyproject.toml lists them: who may import whom."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_imports_only_from_the_floors_below_it():
    """In a process of its own, because import-linter switches off the loggers of the one it runs in."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout
