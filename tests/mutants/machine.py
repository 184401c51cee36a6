"""Mistakes put into the code one at a time, and the tests that have to notice them.

The mistakes stand in the TOML files beside this one, a file for each room of the package. An entry has

    name        what the mutant is called, unlike all others
    mistake     one sentence: what the changed code does wrong
    file        the file that is changed, from the root of the repository
    old, new    a text that stands in the file exactly once, and what takes its place
    tests       what pytest runs; at least one test has to fail
    survives    only where no test can notice the mistake: why not

A mutant is tried in a copy of the working tree in a temporary folder, never in the tree itself. Every trial is a fork
of one process that has imported the heavy packages before, but nothing of this repository.
"""

import argparse
import gc
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

KEYS = {"name", "mistake", "file", "old", "new", "tests"}
"""The keys that every entry has."""

HEAVY = (
    "torch numba scipy.stats pandas pyarrow.parquet matplotlib.pyplot seaborn tokenizers safetensors.torch hypothesis "
    "beartype jaxtyping pytest"
).split()
"""Packages that are imported once, because their import takes longer than most trials."""

CPU_SECONDS, WALL_SECONDS = 240, 1200
"""A trial that takes longer is ended: the mistake made an endless loop, and so was noticed."""


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    room: str
    name: str
    mistake: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str = ""

    def applied(self, text: str) -> str:
        """The text of the file with the mistake; ValueError if `old` does not stand in it exactly once."""
        if (found := text.count(self.old)) != 1:
            raise ValueError(
                f"{self.room}.toml, {self.name}: old stands {found} times in {self.file}; expected 1"
            )
        return text.replace(self.old, self.new)


def read(folder: Path = HERE) -> list[Mutant]:
    """All mutants of the list, room by room. Raises ValueError for an entry that is not as it should be."""
    mutants = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            if not KEYS <= set(entry) <= KEYS | {"survives"}:
                raise ValueError(f"{path.name}, {entry.get('name')}: expected the keys {sorted(KEYS)}")
            if not entry["tests"] or entry["old"] == entry["new"]:
                raise ValueError(f"{path.name}, {entry['name']}: expected tests, and a change")
            mutants.append(Mutant(path.stem, **{**entry, "tests": tuple(entry["tests"])}))
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"several mutants are called {', '.join(twice)}")
    return mutants


def check(mutants: Iterable[Mutant], root: Path = ROOT) -> None:
    """Raise ValueError, with a line for each fault, unless every mutant applies and its tests are there."""
    faults = []
    for mutant in mutants:
        try:
            mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
        except (ValueError, OSError) as fault:
            faults.append(str(fault))
        for test in mutant.tests:
            file, _, function = test.partition("::")
            text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
            if not re.search(rf"^def {function}\(" if function else "^def test_", text, re.MULTILINE):
                faults.append(f"{mutant.room}.toml, {mutant.name}: there is no test {test}")
    if faults:
        raise ValueError("\n".join(faults))


class Tree:
    """A copy of the working tree, in which one mutant at a time is tried."""

    def __init__(self, folder: Path):
        self.folder, self._original, self._changes = folder / "tree", folder / "original", count(1)
        self._kernels = folder / "kernels"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!results"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for file in (ROOT / name for name in names.split("\0") if name):
            if file.is_file():
                copy = self.folder / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
        (self.folder / "results").mkdir()
        (self.folder / "results" / "published").symlink_to(ROOT / "results" / "published")

    def start(self, tests: Sequence[str], log: Path, *options: str) -> int:
        """Run tests in a process of their own, whose output goes to `log`; return its number."""
        sys.stdout.flush()
        if pid := os.fork():
            return pid
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            signal.alarm(WALL_SECONDS)
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder / "src")
            os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode lies in the copy, and saves time
            sys.dont_write_bytecode = False
            if (
                self._kernels.is_dir()
            ):  # for this process, which has imported numba, and for those that it starts
                import_module("numba").config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(self._kernels)
            sys.path.insert(0, str(self.folder / "src"))
            scratch = f"--basetemp={self.folder.parent / 'tmp'}"
            status = import_module("pytest").main(
                ["-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception", scratch, *options, *tests]
            )
            sys.stdout.flush()
            os._exit(int(status))
        finally:  # never back into the loop of the parent
            os._exit(3)

    def spoil(self, mutant: Mutant) -> None:
        """Put the mistake into the copy."""
        file = self.folder / mutant.file
        shutil.copy2(file, self._original)
        text = file.read_text(encoding="utf-8")
        file.write_text(mutant.applied(text), encoding="utf-8")
        # Python knows what it has compiled by a file's time, which may be coarse, and its size.
        later = time.time() + next(self._changes)
        os.utime(file, (later, later))
        if re.search(r"\b(cached_njit|njit|inlined)\b", text):
            # What is compiled with a mistake lies in a cache of its own, which is deleted with it.
            self._kernels.mkdir(mode=0o700)

    def mend(self, mutant: Mutant) -> None:
        """Take the mistake out of the copy, and what was compiled with it."""
        self._original.replace(self.folder / mutant.file)
        shutil.rmtree(self._kernels, ignore_errors=True)


@dataclass(frozen=True)
class Trial:
    """What became of one mutant."""

    mutant: Mutant
    noticed: bool
    seconds: float
    by: str
    """The test that failed first, or what else ended the trial."""


def tried(mutants: Sequence[Mutant], jobs: int) -> Iterator[Trial]:
    """Try every mutant, `jobs` at a time.

    Raises ValueError if the tests fail without any mistake.
    """
    for package in HEAVY:
        import_module(package)
    gc.freeze()  # a trial's collections leave alone what was there before it
    with tempfile.TemporaryDirectory(prefix="mutants_") as name:
        free = []
        for number in range(min(jobs, len(mutants))):
            (folder := Path(name, str(number))).mkdir()
            free.append((Tree(folder), folder / "log"))
        _refuse_failing(free[0][0], free[0][1], mutants)
        running, waiting = {}, list(mutants)
        while waiting or running:
            if waiting and free:
                tree, log = free.pop()
                mutant = waiting.pop(0)
                tree.spoil(mutant)
                running[tree.start(mutant.tests, log, "-x")] = mutant, tree, log, time.monotonic()
                continue
            pid, status = os.wait()
            mutant, tree, log, began = running.pop(pid)
            tree.mend(mutant)
            free.append((tree, log))
            yield Trial(mutant, status != 0, time.monotonic() - began, _failure(log) if status else "")


def _refuse_failing(tree: Tree, log: Path, mutants: Iterable[Mutant]) -> None:
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    # pytest runs a test once that it is given twice, but not one that it is given with its file and alone.
    alone = [test for test in tests if test.partition("::")[0] not in tests or "::" not in test]
    _, status = os.waitpid(tree.start(alone, log), 0)
    if status:
        raise ValueError(f"the tests fail without any mistake:\n{log.read_text()[-4000:]}")


def _failure(log: Path) -> str:
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE)
    return failed[1] if failed else "ended from outside, or before its tests"


def table(trials: Sequence[Trial]) -> str:
    """The trials by room as Markdown, and the mutants that survived."""
    lines = ["| room | noticed | made | minutes |", "| --- | ---: | ---: | ---: |"]
    rooms = {
        room: [t for t in trials if t.mutant.room == room] for room in sorted({t.mutant.room for t in trials})
    }
    for room, found in [*rooms.items(), ("all", trials)]:
        minutes = sum(trial.seconds for trial in found) / 60
        lines.append(f"| {room} | {sum(t.noticed for t in found)} | {len(found)} | {minutes:.1f} |")
    survivors = [trial.mutant for trial in trials if not trial.noticed]
    if survivors:
        lines += ["", "Not noticed:", ""]
    for mutant in survivors:
        reason = f" ({mutant.survives})" if mutant.survives else ""
        lines.append(f"- {mutant.room}, {mutant.name}: {mutant.mistake}{reason}")
    return "\n".join(lines)


def chosen(mutants: Sequence[Mutant], number: int, seed: str) -> list[Mutant]:
    """A random choice of `number` mutants, the same one for the same `seed`."""
    return random.Random(seed).sample(mutants, min(number, len(mutants)))


def commit() -> str:
    """The commit of the working tree; empty outside of a repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that the arguments choose, and print the table; 1 if one survives without a reason."""
    parser = argparse.ArgumentParser(
        prog="python tests/mutants",
        description="Put mistakes into the code, and see whether the tests notice.",
    )
    parser.add_argument("names", nargs="*", help="mutants to try; all if none is named")
    parser.add_argument("--room", action="append", help="try the mutants of this room; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="trials side by side (default: 1)")
    parser.add_argument("--sample", type=int, help="try so many, chosen at random")
    parser.add_argument("--seed", default=commit(), help="what --sample chooses by (default: the commit)")
    given = parser.parse_args(arguments)
    try:
        mutants = read()
        if unknown := {*given.names} - {mutant.name for mutant in mutants}:
            raise ValueError(f"no mutant is called {', '.join(sorted(unknown))}")
        check(mutants)
        mutants = [
            mutant
            for mutant in mutants
            if (not given.names or mutant.name in given.names)
            and (not given.room or mutant.room in given.room)
        ]
        if given.sample is not None:
            mutants = chosen(mutants, given.sample, given.seed)
        trials = []
        for trial in tried(mutants, given.jobs):
            trials.append(trial)
            words = f"noticed by {trial.by}" if trial.noticed else "NOT NOTICED"
            print(
                f"{len(trials)} of {len(mutants)}, {trial.seconds:.0f} s: {trial.mutant.name}: {words}",
                file=sys.stderr,
                flush=True,
            )
    except ValueError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    print(table(trials))
    return int(any(not trial.noticed and not trial.mutant.survives for trial in trials))
