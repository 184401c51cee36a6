"""Runs that are killed, damaged and starved of disk at seeded random moments, then started again by the same command.

Whatever happened, the run must end with the results of an undisturbed one: equal data in every Parquet file (but for
the wall time in column `seconds`), equal bytes in every file of weights, tokens, tables and figures. A damaged file
must be rebuilt, or be named in an error, and is then deleted as the error says. A full disk needs root, for a tmpfs.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from checkouts import command

from layernorm_roles import files

ROOT = Path(__file__).parents[2]
DAMAGED = {
    "Parquet": ("*.parquet",),
    "weights": ("weights.safetensors",),
    "checkpoint": ("checkpoint*.safetensors",),
    "checksum": (f"{files.CHECKSUMS}/*",),
    "dataset": ("training.npy", "validation.npy", "tokenizer.json", "manifest.json", "data/**/*.parquet"),
}
MOST_STARTS = 6
"""After a fault, so many starts of the same command must be enough."""


class Missed(Exception):
    """The run was over before the fault could be done to it."""


class Run:
    """One `snakemake` command in `folder`, a checkout with the configuration tiny.yaml, of the reproduction `name`."""

    def __init__(self, folder: Path, name: str, targets: tuple[str, ...] = ()):
        self.folder, self.targets = folder, targets
        self.results = folder / "results" / name
        self.process: subprocess.Popen | None = None

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def start(self, *arguments: str) -> None:
        """Start the command in a new session, so that no other process is ever signalled."""
        path = os.pathsep.join(str(self.folder / name) for name in ("site", "src"))
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
        return self.process.wait(timeout=900) == 0

    def do(self, *arguments: str) -> bool:
        self.start(*arguments)
        return self.end()

    def processes(self, script: str = "") -> list[int]:
        """Ids of the living processes of the run's session whose command has `script` in it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                line = (folder / "cmdline").read_text()
            except OSError:  # gone meanwhile
                continue
            if int(session) == self.process.pid and state != "Z" and script in line:
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


class Done(NamedTuple):
    """What a fault did to a run, which has ended since, and the file it damaged."""

    what: str
    damaged: Path | None = None
    locked: bool = False
    """Whether the run has left Snakemake's lock behind."""


class Fault(NamedTuple):
    """`do` waits for a random moment (`rng.uniform` of `seconds`, the length of a run) and strikes the run."""

    kind: str
    do: Callable[[Run, random.Random, float], Done]


def wait(run: Run, rng: random.Random, seconds: float) -> None:
    run.start()
    time.sleep(rng.uniform(0, 0.8) * seconds)
    if run.process.poll() is not None:
        raise Missed


def kill_snakemake(number: signal.Signals) -> Fault:
    def do(run: Run, rng: random.Random, seconds: float) -> Done:
        wait(run, rng, seconds)
        jobs = len(run.processes(".snakemake/scripts"))
        if number == signal.SIGINT:  # as from a terminal, where Ctrl-C goes to all
            os.killpg(run.process.pid, number)
        else:
            run.process.send_signal(number)
        run.end()
        # After SIGKILL the jobs live a moment longer, and the next start meets them.
        locks = run.folder / ".snakemake/locks"
        return Done(f"with {jobs} jobs running", locked=locks.is_dir() and any(locks.iterdir()))

    return Fault(f"{number.name} to Snakemake", do)


def kill_job(number: signal.Signals) -> Fault:
    def do(run: Run, rng: random.Random, seconds: float) -> Done:
        wait(run, rng, seconds)
        job = rng.choice(run.until(lambda: run.processes(".snakemake/scripts")))
        try:
            name = Path(f"/proc/{job}/cmdline").read_text().strip("\0").rpartition(".snakemake/scripts/")[2]
            os.kill(job, number)
        except OSError:
            raise Missed from None
        run.end()
        return Done(name.partition(".")[2])

    return Fault(f"{number.name} to a job", do)


def damage(what: str, how: str) -> Fault:
    """A file is cut, or one bit of it flips, while the run is stopped; its time stays, as on a failing disk."""

    def do(run: Run, rng: random.Random, seconds: float) -> Done:
        wait(run, rng, seconds)
        run.until(lambda: run.files(*DAMAGED[what]))
        run.process.kill()
        run.end()
        while run.processes():
            time.sleep(0.1)
        # The record of the rules is left alone: no job makes it again, and claims then count as younger.
        candidates = [file for file in run.files(*DAMAGED[what]) if file.stat().st_size]
        candidates = [file for file in candidates if file.name != "rules.json"]
        if not candidates:  # a checkpoint, removed between the two looks
            raise Missed
        file = rng.choice(candidates)
        before, content = file.stat(), bytearray(file.read_bytes())
        position = rng.randrange(len(content))
        if how == "cut":
            del content[position:]
        else:
            content[position] ^= 1 << rng.randrange(8)
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        what_happened = f"{file.relative_to(run.results)}, byte {position} of {before.st_size}"
        # A reader names the file whose checksum it cannot confirm.
        return Done(
            what_happened, file.parent.parent / file.name if file.parent.name == files.CHECKSUMS else file
        )

    return Fault(f"{what} {how}", do)


def remove_directory(run: Run, rng: random.Random, seconds: float) -> Done:
    wait(run, rng, seconds)
    folders = run.until(lambda: sorted(path for path in run.results.rglob("*") if path.is_dir()))
    folder = rng.choice(folders)
    shutil.rmtree(folder, ignore_errors=True)
    run.end()
    return Done(str(folder.relative_to(run.results)))


def fill_disk(run: Run, rng: random.Random, seconds: float) -> Done:
    """The results lie on a tmpfs that is too small, until the run has failed; then it grows."""
    folder = run.folder / "results"
    folder.mkdir()
    kept = (path for path in (run.folder / "undisturbed").rglob("*") if path.is_file())
    needed = sum(file.stat().st_blocks * 512 for file in kept)
    size = int(needed * rng.uniform(0.1, 0.9))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        raise PermissionError("a tmpfs is refused")
    assert not run.do(), "the run fails"
    assert re.search("No space left on device|os error 28", run.output), run.output[-3000:]
    subprocess.run(["mount", "-o", f"remount,size={10 * needed}", str(folder)], check=True)
    return Done(f"{size / 1e6:.1f} of {needed / 1e6:.1f} MB")


FAULTS = [
    *(kill_snakemake(number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)),
    *(kill_job(number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV)),
    *(damage(what, how) for what in DAMAGED for how in ("cut", "flipped")),
    Fault("directory removed", remove_directory),
    Fault("disk full", fill_disk),
]


class Outcome(NamedTuple):
    """`did`: what it took to finish; `different`: files and how they differ, empty if all is well."""

    done: Done
    did: list[str]
    different: dict[Path, str]


WATCH = """
import sys

def watch(event, args):
    to_a_host = event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple)
    if to_a_host or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        with open({log!r}, "a") as file:
            print(sys.argv, event, args, file=file)

sys.addaudithook(watch)
"""


@contextmanager
def watched(folder: Path) -> Iterator[Path]:
    """Every Python process of a run in `folder` notes in the file yielded what it wants from the network."""
    log, site = folder / "network.txt", folder / "site/sitecustomize.py"
    log.touch()
    site.parent.mkdir()
    site.write_text(WATCH.format(log=str(log)))
    yield log
    site.unlink()


class Trials:
    """An undisturbed run in the checkout `folder`, then runs with faults, each compared with it."""

    def __init__(self, folder: Path, name: str, targets: tuple[str, ...] = ()):
        self.run, self.reference = Run(folder, name, targets), folder / "undisturbed"
        with watched(folder) as network:
            began = time.monotonic()
            assert self.run.do(), self.run.output[-3000:]
            self.seconds = time.monotonic() - began
        self.network = network.read_text().splitlines()
        """What the undisturbed run wanted from the network, a line each."""
        shutil.move(self.run.results, self.reference)

    def trial(self, fault: Fault, rng: random.Random) -> Outcome:
        while True:
            self.run.clear()
            try:
                done = fault.do(self.run, rng, self.seconds)
                break
            except Missed:
                self.run.end()
                self.seconds = max(0.8 * self.seconds, 2.0)  # the first run may have compiled
        did = self.run.finish(done.damaged)
        different = differences(self.reference, self.run.results)
        lost = [name for name, how in different.items() if how == "missing"]
        assert all(name.parts[0] in ("data", "runs") for name in lost), "the same command makes all results"
        # Intermediate files that nothing needed any more are made for the comparison, damaged ones if they show it.
        if done.damaged and done.damaged.exists() and is_damaged(done.damaged):
            done.damaged.unlink()
            did.append("damage found on reading")
            lost.append(done.damaged.relative_to(self.run.results))
        if lost:
            paths = [str((self.run.results / name).relative_to(self.run.folder)) for name in lost]
            assert self.run.do(*paths), self.run.output[-3000:]
            different = differences(self.reference, self.run.results)
        partial = [file for file in self.run.results.rglob(".*.partial*") if file.is_file()]
        return Outcome(done, [*did, *(["temporary files left"] if partial else [])], different)


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
    """The smoke preset, smaller in breadth and longer in training, so that checkpoints come and go."""
    smoke = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text())
    majority, model = smoke["majority"], smoke["language_model"]
    for experiment in majority.values():
        experiment["seeds"] = dict.fromkeys(experiment["seeds"], 0) | {"layernorm": 1}
        experiment["runs_per_job"] = 1  # unlike gpt's two runs
    majority["d8"] |= {"steps": 1500, "evaluate_every": 100, "checkpoint_every": 50}
    majority["d8"]["seeds"] |= {"layernorm": 2, "scale_released": 1}
    majority["d3"]["seeds"] |= {"none": 1}
    model["gpt"] |= {"context_length": 256, "steps": 60, "checkpoint_every": 5}
    model["gpt"]["seeds"] = dict.fromkeys(model["gpt"]["seeds"]) | {"layernorm": 1, "projection": 1}
    for name in [name for name in model if "bytes" in name or name == "gpt_paper_rate"]:
        model[name] = None
    model["bert"] |= {"checkpoint_every": 5, "seeds": {"none": 1, "layernorm": 0}}
    smoke["text"]["words"]["long"] |= {"shortest": 192, "longest": 256}
    return smoke | {"name": "faults", "device": "cpu"}


TINY_TARGET = "results/tiny/parquet/majority_metrics.parquet"
"""One table, made of two runs and their data."""


def tiny_configuration() -> dict:
    """One majority experiment with two short runs that often write their checkpoints: some seconds a fault."""
    default = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["majority"]["d8"]
    steps = {"steps": 3000, "schedule_steps": 6000, "evaluate_every": 500, "checkpoint_every": 25}
    seeds = dict.fromkeys(default["seeds"], 0) | {"layernorm": 2}
    d8 = steps | {"sequences": 300, "batch_size": 100, "seeds": seeds}
    return {"name": "tiny", "device": "cpu", "majority": {"only": ["d8"], "d8": d8}}
