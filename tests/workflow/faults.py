"""Runs that are killed, damaged and starved of disk at seeded random moments, then started again by the same command.

Whatever happened, the run must end with the results of an undisturbed one: equal data in every Parquet file (but for
the wall time in column `seconds`), equal bytes in every file of weights, tokens, tables and figures. A damaged file
must be rebuilt, or be named in an error, and is then deleted as the error says. A full disk needs root, for a tmpfs.
"""

import copy
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from checkouts import ROOT, SMOKE, command

from layernorm_roles import files

DAMAGED = {
    "Parquet": ("*.parquet",),
    "weights": ("weights.safetensors",),
    "checkpoint": ("checkpoint*.safetensors",),
    "checksum": (f"{files.CHECKSUMS}/*",),
    "dataset": ("training.npy", "validation.npy", "tokenizer.json", "manifest.json", "data/**/*.parquet"),
}
MOST_STARTS = 6
"""After a fault, so many starts of the same command must be enough."""
LONGEST = 3600
"""Seconds after which a run is given up."""
JOBS = ".snakemake/scripts"
"""What the command of a running job has in it, and Snakemake's own has not."""

WATCH = """
import sys

def watch(event, args):
    to_a_host = event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple)
    if to_a_host or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        with open({log!r}, "a") as file:
            print(sys.argv, event, args, file=file)

sys.addaudithook(watch)
"""
"""Every Python process in whose path this is sitecustomize.py notes what it wants from the network."""


class Missed(Exception):
    """The run was over before the fault could be done to it."""


class Outcome(NamedTuple):
    """How a run ended that was struck by a fault and started again."""

    damaged: Path | None
    """The file that the fault damaged."""
    locked: bool
    """Whether the fault left Snakemake's lock behind."""
    did: list[str]
    """What it took to finish."""
    different: dict[Path, str]
    """Files and how they differ from those of the undisturbed run, empty if all is well."""


class Trials:
    """A `snakemake` command in the checkout `folder`: an undisturbed run, and those with faults, compared with it."""

    def __init__(self, folder: Path, name: str, targets: tuple[str, ...] = ()):
        self.folder, self.targets = folder, targets
        self.results, self.reference = folder / "results" / name, folder / "undisturbed"
        site, network = folder / "site/sitecustomize.py", folder / "network.txt"
        network.touch()
        site.parent.mkdir()
        site.write_text(WATCH.format(log=str(network)))
        began = time.monotonic()
        assert self.do(), self.output[-3000:]
        self.seconds = time.monotonic() - began
        site.unlink()
        self.network = network.read_text().splitlines()
        """What the undisturbed run wanted from the network, a line each."""
        shutil.move(self.results, self.reference)

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def start(self, *arguments: str) -> None:
        """Start the command in a new session, so that no other process is ever signalled."""
        path = os.pathsep.join(map(str, (self.folder / "site", ROOT / "src")))
        with (self.folder / "output.txt").open("w") as output:
            self.process = subprocess.Popen(
                command("--cores", "2", *(arguments or self.targets)),
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def end(self) -> bool:
        """Wait for the end of the command, and return whether it was successful."""
        try:
            return self.process.wait(timeout=LONGEST) == 0
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    def do(self, *arguments: str) -> bool:
        self.start(*arguments)
        return self.end()

    def start_and_wait(self, rng: random.Random) -> None:
        """Start the command and wait for a random moment of its run."""
        self.start()
        time.sleep(rng.uniform(0, 0.8) * self.seconds)
        if self.process.poll() is not None:
            raise Missed

    def processes(self, part: str = "") -> list[int]:
        """Ids of the living processes of the run's session whose command has `part` in it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                line = (folder / "cmdline").read_text()
            except OSError:  # gone meanwhile
                continue
            if int(session) == self.process.pid and state != "Z" and part in line:
                found.append(int(folder.name))
        return found

    def until(self, look: Callable[[], list]) -> list:
        """What `look` finds, as soon as it finds something in the running run."""
        while self.process.poll() is None:
            if found := look():
                return found
            time.sleep(0.02)
        raise Missed

    def files(self, *patterns: str) -> list[Path]:
        """Finished files of the results."""
        found = {file for pattern in patterns for file in self.results.rglob(pattern) if file.is_file()}
        hidden = {file for file in found if file.name.startswith(".") or file.parent.name == files.CHECKSUMS}
        return sorted(found - hidden if patterns != DAMAGED["checksum"] else found)

    def clear(self) -> None:
        if (self.folder / "results").is_mount():
            subprocess.run(["umount", str(self.folder / "results")], check=True)
        for name in ("results", ".snakemake"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def finish(self, damaged: Path | None) -> list[str]:
        """Start the same command until it is done, and do what its messages say; returns what was done."""
        did = []
        for _ in range(MOST_STARTS):
            if self.do():
                return did
            named = re.findall(r"^error: (\S+): .*?delete (?:it|them) and run again", self.output, re.M)
            if "It can be removed with the --unlock argument" in self.output:
                assert self.do("--unlock"), self.output
                did.append("unlocked")
            elif named:
                assert {self.folder / name for name in named} == {damaged}, (named, damaged)
                damaged.unlink()
                did.append("damage reported")
            else:
                did.append("started once more")
        raise AssertionError(f"not done after {MOST_STARTS} starts:\n{self.output[-3000:]}")

    def trial(self, strike: Callable[["Trials", random.Random], Path | None], rng: random.Random) -> Outcome:
        while True:
            self.clear()
            try:
                damaged = strike(self, rng)
                break
            except Missed:
                self.end()
                self.seconds = max(0.8 * self.seconds, 2.0)  # the first run may have compiled
        locks = self.folder / ".snakemake/locks"
        locked = locks.is_dir() and any(locks.iterdir())
        did = self.finish(damaged)
        different = differences(self.reference, self.results)
        lost = [name for name, how in different.items() if how == "missing"]
        assert all(name.parts[0] in ("data", "runs") for name in lost), "the same command makes all results"
        # Intermediate files that nothing needed any more are made for the comparison, damaged ones if they show it.
        if damaged and damaged.exists() and is_damaged(damaged):
            damaged.unlink()
            lost.append(damaged.relative_to(self.results))
        if lost:
            paths = [str((self.results / name).relative_to(self.folder)) for name in lost]
            assert self.do(*paths), self.output[-3000:]
            different = differences(self.reference, self.results)
        return Outcome(damaged, locked, did, different)


def kill(number: signal.Signals, whole: bool) -> Callable[[Trials, random.Random], None]:
    """A fault: Snakemake (`whole`) or one of its jobs gets the signal."""

    def strike(run: Trials, rng: random.Random) -> None:
        run.start_and_wait(rng)
        if whole and number == signal.SIGINT:  # as from a terminal, where Ctrl-C goes to all
            os.killpg(run.process.pid, number)
        elif whole:
            run.process.send_signal(
                number
            )  # after SIGKILL jobs live a moment longer, and the next start meets them
        else:
            try:
                os.kill(rng.choice(run.until(lambda: run.processes(JOBS))), number)
            except ProcessLookupError:
                raise Missed from None
        run.end()

    return strike


def damage(kind: str, cut: bool) -> Callable[[Trials, random.Random], Path]:
    """A fault: a file is cut, or a bit of it flips, while the run is stopped; its time stays, as on a failing disk."""

    def strike(run: Trials, rng: random.Random) -> Path:
        run.start_and_wait(rng)
        run.until(lambda: run.files(*DAMAGED[kind]))
        run.process.kill()
        run.end()
        while run.processes():
            time.sleep(0.1)
        # The record of the rules is left alone: no job makes it again, and claims then count as younger.
        found = [
            file for file in run.files(*DAMAGED[kind]) if file.stat().st_size and file.name != "rules.json"
        ]
        if not found:  # a checkpoint, removed between the two looks
            raise Missed
        file = rng.choice(found)
        before, content = file.stat(), bytearray(file.read_bytes())
        position = rng.randrange(len(content))
        if cut:
            del content[position:]
        else:
            content[position] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        # A reader names the file whose checksum it cannot confirm.
        return file.parent.parent / file.name if file.parent.name == files.CHECKSUMS else file

    return strike


def remove_directory(run: Trials, rng: random.Random) -> None:
    run.start_and_wait(rng)
    folders = run.until(lambda: sorted(path for path in run.results.rglob("*") if path.is_dir()))
    shutil.rmtree(rng.choice(folders), ignore_errors=True)
    run.end()


def fill_disk(run: Trials, rng: random.Random) -> None:
    """The results lie on a tmpfs that is too small, until the run has failed; then it grows."""
    folder = run.folder / "results"
    folder.mkdir()
    needed = sum(file.stat().st_blocks * 512 for file in run.reference.rglob("*") if file.is_file())
    size = int(needed * rng.uniform(0.1, 0.9))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        raise PermissionError("a tmpfs is refused")
    assert not run.do(), "the run fails"
    assert re.search("No space left on device|os error 28", run.output), run.output[-3000:]
    subprocess.run(["mount", "-o", f"remount,size={10 * needed}", str(folder)], check=True)


FAULTS = {
    **{f"{n.name} to Snakemake": kill(n, True) for n in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)},
    **{f"{n.name} to a job": kill(n, False) for n in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV)},
    **{f"{kind} {how}": damage(kind, how == "cut") for kind in DAMAGED for how in ("cut", "flipped")},
    "directory removed": remove_directory,
    "disk full": fill_disk,
}


def differences(one: Path, other: Path) -> dict[Path, str]:
    """Files of the folder `one` that `other` lacks or has with another content."""
    found = {}
    for file in sorted(file for file in one.rglob("*") if file.is_file()):
        name = file.relative_to(one)
        timed = name.parts[0] in ("logs", "benchmarks", "report.html") or file.stem == "durations"
        if timed or file.parent.name == files.CHECKSUMS:
            continue  # what tells the time, and checksums of files that hold it
        if not (other / name).exists():
            found[name] = "missing"
        elif content(file) != content(other / name):
            found[name] = "different"
    return found


def content(file: Path) -> bytes:
    """A file's bytes; of a Parquet file those of the columns but for `seconds`, or none if it is damaged."""
    if file.suffix != ".parquet":
        return file.read_bytes()
    try:
        table = pq.ParquetFile(pa.BufferReader(files.read_bytes(file))).read()
    except (pa.ArrowException, OSError, ValueError):
        return b""
    columns = {name: table[name] for name in table.column_names if name != "seconds"}
    sink, bare = pa.BufferOutputStream(), pa.table(columns).combine_chunks()
    with pa.ipc.new_stream(sink, bare.schema) as stream:
        stream.write_table(bare)
    return sink.getvalue().to_pybytes()


def is_damaged(file: Path) -> bool:
    """Whether the reader of this kind of file refuses `file`."""
    try:
        files.verify(file)
    except ValueError:
        return True
    return False


def configuration() -> dict:
    """Every stage of smoke, with few runs that train longer, so that checkpoints come and go."""
    smoke = copy.deepcopy(SMOKE)
    majority, model = smoke["majority"], smoke["language_model"]
    for part, kept in ((majority, ("d8", "d3")), (model, ("gpt", "bert"))):
        for name in {*part} - {*kept}:
            del part[name]
        for experiment in part.values():
            experiment["seeds"] = dict.fromkeys(experiment["seeds"], 0) | {"layernorm": 1}
        part["only"] = [*kept]
    majority["d8"] |= {"steps": 1500, "evaluate_every": 100, "checkpoint_every": 50, "runs_per_job": 1}
    majority["d8"]["seeds"] |= {"layernorm": 2, "scale_released": 1}
    majority["d3"]["seeds"] |= {"none": 1}
    model["gpt"] |= {"steps": 60, "checkpoint_every": 5}
    model["gpt"]["seeds"] |= {"projection": 1}  # two runs in a job, unlike d8
    model["bert"] |= {"checkpoint_every": 5}
    return smoke | {"name": "faults"}


TINY_TARGET = "results/tiny/parquet/majority_metrics.parquet"
"""One table, made of two runs and their data."""


def tiny_configuration() -> dict:
    """One majority experiment with two short runs that often write their checkpoints: some seconds a fault."""
    default = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["majority"]["d8"]
    steps = {"steps": 3000, "schedule_steps": 6000, "evaluate_every": 500, "checkpoint_every": 25}
    seeds = dict.fromkeys(default["seeds"], 0) | {"layernorm": 2}
    d8 = steps | {"sequences": 300, "batch_size": 100, "seeds": seeds}
    return {"name": "tiny", "device": "cpu", "majority": {"only": ["d8"], "d8": d8}}
