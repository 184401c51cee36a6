import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


class Checkout:
    """A copy of the workflow, and of the package, in which a test may run and break things."""

    def __init__(self, folder: Path, settings: dict):
        self.folder = folder
        for name in ("workflow", "profiles", "examples", "src"):
            # With what numba has compiled: a copy keeps its files' times, so the cache holds.
            shutil.copytree(ROOT / name, folder / name)
        for name in ("Snakefile", "config.yaml"):
            shutil.copy(ROOT / name, folder)
        self.configure(settings)

    def configure(self, settings: dict) -> None:
        (self.folder / "tiny.yaml").write_text(yaml.safe_dump(settings))

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        """Run snakemake in the copy, on two cores and with the test's settings; its package hides the installed one."""
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, "--configfile", "tiny.yaml"]
        environment = os.environ | {"PYTHONPATH": str(self.folder / "src")}
        return subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str) -> str:
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return lambda settings: Checkout(tmp_path_factory.mktemp("checkout"), settings)
