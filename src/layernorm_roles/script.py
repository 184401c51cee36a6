"""What all scripts of the Snakemake workflow share: a log file, progress with the time left, and errors in one line."""

import atexit
import gc
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from layernorm_roles import files
from layernorm_roles.files import Unusable
from layernorm_roles.memory import first_line, is_out_of_memory
from layernorm_roles.plan import Plan, finish

log = logging.getLogger("layernorm_roles")


def search_garbage_rarely() -> None:
    """Let Python collect garbage after a million new objects, not 700, and not at exit, so that imports are faster."""
    gc.set_threshold(1_000_000)
    atexit.register(gc.freeze)


class Progress:
    """Reports how far a long loop is: to the log every few seconds, to the terminal at most every half minute.

    A report says how many of the `total` units of work are done, how long they took, and an estimate of the time left.
    A loop that goes on from a checkpoint gives `done`, the number of units done before. Each call takes the number of
    units that are done so far and, optionally, a text for the report.

    >>> progress = Progress("majority d8 layernorm seed 3", total=14_000, unit="steps")
    >>> progress(1_000, "test loss 0.92")
    """

    log_seconds, terminal_seconds = 5.0, 30.0

    def __init__(self, title: str, total: int, unit: str, done: int = 0):
        self.title, self.total, self.unit, self.first = title, total, unit, done
        self.began = self.logged = self.shown = time.monotonic()

    def __call__(self, done: int, facts: str = "") -> None:
        now = time.monotonic()
        finished = done >= self.total
        if not finished and now - self.logged < self.log_seconds:
            return
        spent = now - self.began
        line = f"{self.title}: {done:,} of {self.total:,} {self.unit}, {spent:.0f} s"
        if done > self.first:
            line += f", {spent / (done - self.first) * (self.total - done):.0f} s left"
        if facts:
            line += f"; {facts}"
        log.info(line)
        self.logged = now
        if now - self.shown >= self.terminal_seconds:
            print(line, file=sys.stderr, flush=True)
            self.shown = now


@contextmanager
def naming(key: str) -> Iterator[None]:
    """A context manager that puts `key`, a key of config.yaml, before the message of a ValueError raised in it.

    Only errors of the class `files.Unusable` are left as they are: their messages begin with the path of a file.
    """
    try:
        yield
    except Unusable:
        raise
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _end_with(parent: int) -> None:
    """End this process once its parent, of process id `parent`, has ended: an orphan must write no files."""
    while os.getppid() == parent:
        time.sleep(0.5)
    log.error("the process that started this job is gone")
    os.kill(os.getpid(), signal.SIGTERM)


def _end(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a cluster sends more than one, into the exit as well
    log.error("ended by %s", signal.Signals(number).name)
    sys.exit(128 + number)  # an exception, unlike a signal's default: temporary files are removed


@contextmanager
def job(snakemake: Any) -> Iterator[Plan | None]:
    """Run the `with` block as a job of the workflow, and yield the job's plan, or None if the job has none.

    `snakemake` is the object of that name which Snakemake gives to a script. Log messages go to the job's log file.
    When the block ends without error, the plan is written to the job's origin, which marks the job as done.

    A ValueError, an OSError or a lack of memory ends the process with status 1 and one line on standard error; any
    other error is raised again. The traceback is in the log. At SIGTERM and SIGINT, or when the Snakemake process that
    started the job is gone, this process ends and leaves nothing half-written.
    """
    log_file = snakemake.log[0]
    search_garbage_rarely()
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # Ctrl-C, but not in the background
        signal.signal(signal.SIGINT, _end)
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    Path(log_file).parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(log_file, mode="w")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    log.info("process %d", os.getpid())
    if "SLURM_JOB_ID" in os.environ:
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        log.info("SLURM job %s on %s, GPUs %s", os.environ["SLURM_JOB_ID"], os.uname().nodename, gpus)
    try:
        files.remove_partials(snakemake.output)
        plan = snakemake.params.get("plan")
        yield plan
        if plan is not None:
            finish(plan, snakemake.output.origin)
        log.info("done")
    except Exception as error:
        log.error(traceback.format_exc())
        if isinstance(error, ValueError | OSError):
            said = str(error)
        elif is_out_of_memory(error):
            said = f"the memory of this machine is used up; run fewer jobs at a time ({first_line(error)})"
        else:
            raise
        print(f"\nerror: {said}\n(details: {log_file})\n", file=sys.stderr, flush=True)
        sys.exit(1)
    finally:
        log.removeHandler(handler)
        handler.close()
