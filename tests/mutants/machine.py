"""Mistakes put into the code one at a time, and the tests that have to notice them.

mistakes.toml has the mistakes, grouped by the tests that pytest runs for them, of which one at least has to fail. A
mistake is [what the changed code does wrong, where, old, new]: in the function, method or constant called `where`,
wherever in the package it stands, the text `old` becomes `new`. White space in `old` does not count, so that code may
move and be set otherwise. The text must stand there once and nowhere else in what is called so.

A mistake is tried in a copy of the working tree in a temporary folder, never in the tree itself. Every trial is a fork
of one process that has imported the heavy packages before, but nothing of this repository.
"""

import argparse
import ast
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
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = "src/layernorm_roles"

HEAVY = (
    "torch numba scipy.stats pandas pyarrow.parquet matplotlib.pyplot seaborn tokenizers safetensors.torch hypothesis "
    "beartype jaxtyping pytest"
).split()
"""Packages that are imported once, because their import takes longer than most trials."""

CPU_SECONDS, WALL_SECONDS = 600, 1800
"""A trial that takes longer is ended: the mistake made an endless loop, and so was noticed."""


class Place(NamedTuple):
    """Where a text stands: a file, and the numbers of its first character and of the one after it."""

    file: Path
    start: int
    end: int


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    mistake: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]

    def place(self, root: Path = ROOT) -> Place:
        """Where the mistake is made in the repository at `root`; ValueError unless that is one place."""
        words = (re.escape(word) for word in re.findall(r"\w+|[^\w\s]", self.old))
        pattern = re.compile(r"\s*".join(rf"\b{word}\b" if word[-1].isalnum() else word for word in words))
        found = set()
        for file in sorted((root / SOURCE).rglob("*.py")):
            text, called = _called(file)
            for _, start, end in (part for part in called if part[0] == self.where):
                found |= {Place(file, *match.span()) for match in pattern.finditer(text, start, end)}
        if len(found) != 1:
            files = ", ".join(sorted({str(place.file.relative_to(root)) for place in found})) or "no file"
            raise ValueError(
                f"{self.mistake} In what is called {self.where} the text {self.old!r} stands {len(found)} times "
                f"({files}); expected 1. Follow the code in tests/mutants/mistakes.toml, or take the mistake out."
            )
        return found.pop()


@cache
def _called(file: Path) -> tuple[str, list[tuple[str, int, int]]]:
    """The text of a file, and where in it the functions, classes and constants of each name begin and end."""
    text, starts = file.read_text(encoding="utf-8"), [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    nodes = _named(ast.parse(text).body)
    return text, [(name, starts[node.lineno - 1], starts[node.end_lineno]) for name, node in nodes]


def _named(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """The functions, classes, their methods and the constants, with their names."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _named(node.body, f"{node.name}.")
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            if isinstance(target, ast.Name):
                yield prefix + target.id, node


def read(path: Path = HERE / "mistakes.toml") -> list[Mutant]:
    """All mutants of the list."""
    groups = tomllib.loads(path.read_text(encoding="utf-8"))["group"]
    return [Mutant(*mistake, tuple(group["tests"])) for group in groups for mistake in group["mistakes"]]


def check(mutants: Iterable[Mutant], root: Path = ROOT) -> None:
    """Raise ValueError, with a line for each fault, unless every mistake has its place and its tests are there."""
    faults = []
    for mutant in mutants:
        try:
            mutant.place(root)
        except ValueError as fault:
            faults.append(str(fault))
    tests = {test for mutant in mutants for test in mutant.tests}
    faults += [
        f"mistakes.toml: there are no tests {test}" for test in sorted(tests) if not (root / test).exists()
    ]
    if faults:
        raise ValueError("\n".join(faults))


class Tree:
    """A copy of the working tree, in which one mutant at a time is tried."""

    def __init__(self, folder: Path):
        self.folder, self.log, self._kernels = folder / "tree", folder / "log", folder / "kernels"
        self._changes, self._original = count(1), (folder, "")
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!results"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for file in (ROOT / name for name in names.split("\0") if name):
            if file.is_file():
                copy = self.folder / file.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
        (self.folder / "results").mkdir()
        (self.folder / "results" / "published").symlink_to(ROOT / "results" / "published")

    def start(self, tests: Sequence[str], *options: str) -> int:
        """Run tests in a process of their own, whose output goes to the log; return its number."""
        sys.stdout.flush()
        if pid := os.fork():
            return pid
        with self.log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
            signal.alarm(WALL_SECONDS)
            os.chdir(self.folder)
            os.environ["PYTHONPATH"] = str(self.folder / "src")
            if (
                self._kernels.is_dir()
            ):  # for this process, which has imported numba, and for those that it starts
                import_module("numba").config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = str(self._kernels)
            sys.path.insert(0, str(self.folder / "src"))
            quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
            scratch = f"--basetemp={self.folder.parent / 'tmp'}"
            status = import_module("pytest").main([*quiet, scratch, *options, *tests])
            sys.stdout.flush()
            os._exit(int(status))
        finally:  # never back into the loop of the parent
            os._exit(3)

    def spoil(self, mutant: Mutant) -> None:
        """Put the mistake into the copy."""
        file, start, end = mutant.place(self.folder)
        text = file.read_text(encoding="utf-8")
        self._original = file, text
        self._write(file, text[:start] + mutant.new + text[end:])
        if re.search(r"\b(cached_njit|njit|inlined)\b", text):
            # What is compiled with a mistake lies in a cache of its own, which is deleted with it.
            self._kernels.mkdir(mode=0o700)

    def mend(self) -> None:
        """Take the mistake out of the copy, and what was compiled with it."""
        self._write(*self._original)
        shutil.rmtree(self._kernels, ignore_errors=True)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        # Python knows what it has compiled by a file's time, which may be coarse, and its size.
        later = time.time() + next(self._changes)
        os.utime(file, (later, later))


class Trial(NamedTuple):
    """What became of one mutant: whether a test failed, after how long, and which one, or what else ended the trial."""

    mutant: Mutant
    noticed: bool
    seconds: float
    by: str


def tried(mutants: Sequence[Mutant], jobs: int, before: bool = True) -> Iterator[Trial]:
    """Try every mutant, `jobs` at a time; `before` them all, run their tests without any mistake.

    Raises ValueError if the tests fail without any mistake.
    """
    for package in HEAVY:
        import_module(package)
    gc.freeze()  # a trial's collections leave alone what was there before it
    with tempfile.TemporaryDirectory(prefix="mutants_") as name:
        free = []
        for number in range(min(jobs, len(mutants))):
            (folder := Path(name, str(number))).mkdir()
            free.append(Tree(folder))
        if before:
            _, status = os.waitpid(free[0].start(sorted({test for m in mutants for test in m.tests})), 0)
            if status:
                raise ValueError(f"the tests fail without any mistake:\n{free[0].log.read_text()[-4000:]}")
        running, waiting = {}, list(mutants)
        while waiting or running:
            if waiting and free:
                tree, mutant = free.pop(), waiting.pop(0)
                tree.spoil(mutant)
                running[tree.start(mutant.tests, "-x")] = mutant, tree, time.monotonic()
                continue
            pid, status = os.wait()
            mutant, tree, began = running.pop(pid)
            tree.mend()
            free.append(tree)
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", tree.log.read_text(errors="replace"), re.MULTILINE)
            by = failed[1] if failed else "what ended the trial from outside, or before its tests"
            yield Trial(mutant, status != 0, time.monotonic() - began, by)


def table(trials: Sequence[Trial]) -> str:
    """The trials by their tests as Markdown, and the mutants that survived."""
    lines = ["| tests | noticed | made | minutes |", "| --- | ---: | ---: | ---: |"]
    groups = dict.fromkeys(trial.mutant.tests for trial in trials)
    for name, found in [(" ".join(g), [t for t in trials if t.mutant.tests == g]) for g in groups] + [
        ("all", trials)
    ]:
        minutes = sum(trial.seconds for trial in found) / 60
        lines.append(f"| {name} | {sum(t.noticed for t in found)} | {len(found)} | {minutes:.1f} |")
    lines += [f"\nNot noticed: {t.mutant.where}: {t.mutant.mistake}" for t in trials if not t.noticed]
    return "\n".join(lines)


def commit() -> str:
    """The commit of the working tree; empty outside of a repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that the arguments choose, and print the table; 1 if one survives."""
    parser = argparse.ArgumentParser(
        prog="python tests/mutants",
        description="Put mistakes into the code, and see whether the tests notice.",
    )
    parser.add_argument("where", nargs="*", help="functions whose mistakes are tried; all if none is named")
    parser.add_argument("--jobs", type=int, default=1, help="trials side by side (default: 1)")
    parser.add_argument(
        "--sample", type=int, help="try so many, chosen at random, and not their tests before"
    )
    parser.add_argument("--seed", default=commit(), help="what --sample chooses by (default: the commit)")
    given = parser.parse_args(arguments)
    try:
        mutants = [mutant for mutant in read() if not given.where or mutant.where in given.where]
        check(mutants)
        if given.sample is not None:
            mutants = random.Random(given.seed).sample(mutants, min(given.sample, len(mutants)))
        trials = []
        for trial in tried(mutants, given.jobs, before=given.sample is None):
            trials.append(trial)
            words = f"noticed by {trial.by}" if trial.noticed else "NOT NOTICED"
            done = f"{len(trials)} of {len(mutants)}, {trial.seconds:.0f} s"
            print(f"{done}: {trial.mutant.where}: {words}", file=sys.stderr, flush=True)
    except ValueError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    print(table(trials))
    return int(any(not trial.noticed for trial in trials))
