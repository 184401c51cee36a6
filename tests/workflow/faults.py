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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from checkouts import SMOKE, Checkout, command, no_runs

from layernorm_roles import files, plan
from layernorm_roles.reproduction import merged

DAMAGED = {
    "Parquet": ("*.parquet",),
    "weights": ("weights.safetensors",),
    "checkpoint": ("checkpoint*.safetensors",),
    "checksum": (f"{files.CHECKSUMS}/*",),
    "dataset": ("training.npy", "validation.npy", "tokenizer.json", "manifest.json", "data/**/*.parquet"),
}
MOST_STARTS, LONGEST = 6, 3600
"""After a fault, so many starts of the same command must be enough; seconds after which a run is given up."""
JOBS = ".snakemake/scripts"
"""What the command of a running job has in it, and Snakemake's own has not."""


class Missed(Exception):
    """The run was over before the fault could be done to it."""


class Trials:
    """A `snakemake` command in a checkout: an undisturbed run, and those with faults, compared with it."""

    def __init__(self, checkout: Checkout, name: str, targets: tuple[str, ...] = ()):
        self.folder, self.environment, self.targets = checkout.folder, checkout.environment(), targets
        self.results, self.reference = self.folder / "results" / name, self.folder / "undisturbed"
        began = time.monotonic()
        assert self.do(), self.output[-3000:]
        self.seconds = time.monotonic() - began
        assert not (self.folder / "network.txt").exists(), "an undisturbed run does not use the network"
        shutil.move(self.results, self.reference)

    @property
    def output(self) -> str:
        return (self.folder / "output.txt").read_text()

    def start(self, *arguments: str) -> None:
        """Start the command in a new session, so that no other process is ever signalled."""
        own = {"env": self.environment | {"OMP_NUM_THREADS": "1"}, "start_new_session": True}
        with (self.folder / "output.txt").open("w") as out:
            words = command("--cores", "2", *(arguments or self.targets))
            self.process = subprocess.Popen(words, cwd=self.folder, stdout=out, stderr=out, **own)

    def end(self) -> bool:
        try:
            return self.process.wait(timeout=LONGEST) == 0
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    def do(self, *arguments: str) -> bool:
        self.start(*arguments)
        return self.end()

    def start_and_wait(self, rng: random.Random) -> None:
        """Start the command and wait for a random moment of its run, or raise Missed when it ends before."""
        self.start()
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(rng.uniform(0, 0.8) * self.seconds)
            self.seconds = time.monotonic() - began  # the first run may have compiled
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

    def trial(self, strike: Callable, rng: random.Random) -> None:
        """Strike the run and finish it. Fails if a file differs from the undisturbed run's."""
        while True:
            self.clear()
            try:
                damaged = strike(self, rng)
                break
            except Missed:
                self.end()
                self.seconds = max(0.8 * self.seconds, 2.0)
        did = self.finish(damaged)
        different = self.differences()
        lost = [name for name, how in different.items() if how == "missing"]
        assert all(name.parts[0] in ("data", "runs") for name in lost), "the same command makes all results"
        # Intermediate files that nothing needed any more are made for the comparison, damaged ones if they show it.
        if any(fault.startswith(f"{damaged}:") for fault in files.faults(self.results)):
            damaged.unlink()
            lost.append(damaged.relative_to(self.results))
        if lost:
            assert self.do(*(f"results/{self.results.name}/{name}" for name in lost)), self.output
        assert not self.differences(), (damaged, did, self.differences())

    def differences(self) -> dict[Path, str]:
        """Files of the undisturbed run that the results lack or have with another content."""
        found = {}
        for file in sorted(file for file in self.reference.rglob("*") if file.is_file()):
            name = file.relative_to(self.reference)
            timed = name.parts[0] in ("logs", "benchmarks", "report.html") or file.stem == "durations"
            if timed or file.parent.name == files.CHECKSUMS or str(name) == plan.DIFFERS:
                continue  # what tells the time, and checksums of files that hold it
            if not (self.results / name).exists():
                found[name] = "missing"
            elif content(file) != content(self.results / name):
                found[name] = "different"
        return found


def kill(number: signal.Signals, whole: bool) -> Callable[[Trials, random.Random], None]:

    def strike(run: Trials, rng: random.Random) -> None:
        run.start_and_wait(rng)
        if whole and number == signal.SIGINT:  # as from a terminal, where Ctrl-C goes to all
            os.killpg(run.process.pid, number)
        elif whole:  # after SIGKILL jobs live a moment longer, and the next start meets them
            run.process.send_signal(number)
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
        found = [file for file in run.files(*DAMAGED[kind]) if file.stat().st_size]
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
    size = f"size={int(needed * rng.uniform(0.1, 0.9))}"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True).returncode:
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


def seeds(section: str, group: str, **wanted: int) -> dict[str, int]:
    """Numbers of runs of the variants in an experiment or model of the smoke preset: none but those wanted."""
    return dict.fromkeys(SMOKE[section][group]["seeds"], 0) | {"layernorm": 1} | wanted


def configuration() -> dict:
    """Every stage of smoke, with few runs that train longer, so that checkpoints come and go."""
    d8 = {"steps": 1500, "evaluate_every": 100, "checkpoint_every": 50, "runs_per_job": 1}
    d8["seeds"] = seeds("majority", "d8", layernorm=2, scale_released=1)
    majority = {"only": ["d8", "d3"], "d8": d8, "d3": {"seeds": seeds("majority", "d3", none=1)}}
    # Two runs of the GPT in a job, unlike d8.
    gpt = {"steps": 60, "checkpoint_every": 5, "seeds": seeds("language_model", "gpt", projection=1)}
    bert = {"checkpoint_every": 5, "seeds": seeds("language_model", "bert")}
    models = {"only": ["gpt", "bert"], "gpt": gpt, "bert": bert}
    return merged(SMOKE, {"name": "faults", "majority": majority, "language_model": models})


TINY_TARGET = "results/tiny/parquet/majority_metrics.parquet"
"""One table, made of two runs and their data."""


def tiny_configuration() -> dict:
    """One majority experiment with two short runs that often write their checkpoints: some seconds a fault."""
    steps = {"steps": 3000, "schedule_steps": 6000, "evaluate_every": 500, "checkpoint_every": 25}
    d8 = steps | {"sequences": 300, "batch_size": 100, "seeds": no_runs() | {"layernorm": 2}}
    return {"name": "tiny", "device": "cpu", "majority": {"only": ["d8"], "d8": d8}}
