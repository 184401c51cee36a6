"""Copies of the workflow in which tests run `snakemake`, and how they start it."""

import logging
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
SMOKE = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8")) | {"device": "cpu"}
SMOKE["norms"]["dynamic_tanh"] = "examples.dynamic_tanh:DynamicTanh"
SMOKE["majority"]["d8"]["seeds"]["dynamic_tanh"] = 1
"""The smoke preset with a norm of one's own, of which one run is trained."""
TINY_RUNS = {"sequences": 300, "batch_size": 100, "steps": 4, "schedule_steps": 8, "evaluate_every": 2}
"""Settings of an experiment of the majority task that is trained in no time."""

SEED = os.environ.get("FAULT_SEED", "0")
"""Another seed strikes runs at other moments."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["snakemake.cli"])


def command(*arguments: str) -> list[str]:
    """A `snakemake` command for a folder whose settings are in the file tiny.yaml."""
    return [sys.executable, "-m", "snakemake", *arguments, "--configfile", "tiny.yaml"]


def no_runs() -> dict[str, int]:
    """The seeds of an experiment that trains no built-in variant."""
    # Imported here: commands are forked from a process that has imported this file, and find the package of their own.
    from layernorm_roles.variants import SPLIT_VARIANTS, VARIANTS

    return dict.fromkeys((*VARIANTS, *SPLIT_VARIANTS), 0)


def environment(package: Path, folder: Path) -> dict[str, str]:
    """An environment in which the code in `package`/src hides the installed one.

    What a process in it wants from the network is written to `folder`/network.txt.
    """
    path = os.pathsep.join(map(str, (package / "src", Path(__file__).with_name("site"))))
    return os.environ | {"PYTHONPATH": path, "NETWORK_LOG": str(folder / "network.txt")}


def _main(folder: Path, environment: dict[str, str], arguments: list[str], output: str) -> None:
    """Run Snakemake in this process as `python -m snakemake` does; what it prints goes to the file `output`."""
    from snakemake.cli import main

    with Path(output).open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [str(folder), *environment["PYTHONPATH"].split(os.pathsep)]
    sys.argv = ["snakemake", *arguments]
    try:
        main(arguments)
    finally:
        logging.shutdown()


def snakemake(
    folder: Path, *arguments: str, package: Path, killed_after: Path | None = None
) -> subprocess.CompletedProcess:
    """The end of a `snakemake` command with the code in `package`/src, forked from a process that has imported it.

    It is killed at a random moment of the second after the file `killed_after` is there.
    """
    # With the profile's timespan each command would end five seconds later.
    every = ["--cores", "2", "--max-jobs-per-timespan", "1000/1s", *arguments]
    with tempfile.NamedTemporaryFile() as output:
        process = FORKS.Process(target=_main, args=(folder, environment(package, folder), every, output.name))
        process.start()
        if killed_after:
            while process.is_alive() and not killed_after.exists():
                time.sleep(0.02)
            time.sleep(random.Random(SEED).random())
            process.kill()
        process.join()
        printed = Path(output.name).read_text(encoding="utf-8")
    return subprocess.CompletedProcess(every, process.exitcode, printed)


class Checkout:
    """A copy of the workflow to run and break, with this repository's package, compiled, until `copy_package`."""

    def __init__(self, folder: Path, settings: dict):
        self.folder, self.package = folder, ROOT
        for name in ("workflow", "profiles", "examples"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("Snakefile", "config.yaml"):
            shutil.copy(ROOT / name, folder)
        self.configure(settings)

    def copy_package(self) -> None:
        """Give the checkout a package of its own, which a test may edit."""
        shutil.copytree(ROOT / "src", self.folder / "src")
        self.package = self.folder

    def environment(self) -> dict[str, str]:
        return environment(self.package, self.folder)

    def configure(self, settings: dict) -> None:
        (self.folder / "tiny.yaml").write_text(yaml.safe_dump(settings))

    def snakemake(self, *arguments: str, killed_after: Path | None = None) -> subprocess.CompletedProcess:
        """Run snakemake in the copy, on two cores and with the test's settings."""
        given = {"package": self.package, "killed_after": killed_after}
        return snakemake(self.folder, *arguments, "--configfile", "tiny.yaml", **given)

    def run(self, *arguments: str) -> str:
        done = self.snakemake(*arguments)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


def jobs_of(plan: str) -> dict[str, int]:
    rows = (line.split() for line in plan.splitlines())
    found = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    return {rule: number for rule, number in found.items() if rule not in ("total", "all")}
