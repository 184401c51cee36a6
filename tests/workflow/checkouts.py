"""Copies of the workflow in which tests run `snakemake`, and how they start it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SMOKE = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8")) | {"device": "cpu"}
SMOKE["norms"]["dynamic_tanh"] = "examples.dynamic_tanh:DynamicTanh"
SMOKE["majority"]["d8"]["seeds"]["dynamic_tanh"] = 1
"""The smoke preset with a norm of one's own, of which one run is trained."""


def command(*arguments: str) -> list[str]:
    """A `snakemake` command for a folder whose settings are in the file tiny.yaml."""
    return [sys.executable, "-m", "snakemake", *arguments, "--configfile", "tiny.yaml"]


def environment(folder: Path) -> dict[str, str]:
    """An environment in which the package in `folder` hides the installed one."""
    return os.environ | {"PYTHONPATH": str(folder / "src")}


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
        """Run snakemake in the copy, on two cores and with the test's settings."""
        return subprocess.run(
            command("--cores", "2", *arguments),
            cwd=self.folder,
            env=environment(self.folder),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *arguments: str) -> str:
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout
