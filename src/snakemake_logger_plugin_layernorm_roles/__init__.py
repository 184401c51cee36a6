"""A logger plugin of Snakemake that prints a line for each long job, the time left, and why a job failed.

Profiles ask for it: `logger: layernorm-roles`. With --verbose messages are printed as Snakemake words them.
"""

import logging
import re
import sys
import threading
import time
from collections.abc import Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import NamedTuple

import yaml
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_layernorm_roles.remaining import Remaining, seconds_by_rule

LONG_SECONDS, LONG_TIMES = 10.0, 2.0
"""A line is printed when a job ends that took at least so many seconds and so many times the mean of earlier jobs."""

SILENT_SECONDS, SILENT_SHARE = 30.0, 1 / 40
"""A line on progress follows so many seconds of silence, or this share of the workflow's time so far, if longer."""

NAMED = 3
"""The largest number of running jobs that a line on progress names."""

LINE_CHARACTERS, SPARED_CHARACTERS = 300, 100
"""A line from Snakemake, which may list hundreds of files, is cut to so many characters, if that spares so many."""

UNPRINTED = (
    "Assuming unrestricted shared filesystem usage",
    "Singularity containers: ignored",
    "Building DAG of jobs",
    "Using shell",
    "Group jobs: inactive",
    "Select jobs to execute",
    "Exiting because a job execution failed",
    "Shutting down, this might take some time",
    "Elapsed time",
    "Some jobs were triggered by provenance information",
    "CalledProcessError",
    "At least one job did not complete successfully",
)
"""A message of Snakemake that contains one of these texts is not printed: there are better lines for it, or none."""

JOBS_ABOVE = "(check individual jobs above for details)"
"""What Snakemake adds to the reasons of a dry run; the jobs stand above with --verbose alone."""

DURATIONS = Path(__file__).parents[2] / "results/published/tables/durations.csv"
"""The CSV file with what the jobs of the kept reproduction took, from which the time left is estimated at first."""

WHY = re.compile(r"^(?:error: .*(?:\n\(details: .*\))?|slurmstepd: error: \*{3} .*)", re.MULTILINE)
"""A pattern of the lines in a cluster's log that say why a job failed: the job's own error line, or SLURM's."""


class Job(NamedTuple):
    """A job of a Snakemake workflow that has started and has not ended."""

    rule: str
    title: str
    """What lines call the job: the path of its log below the folder logs/, or its rule if it has no log there."""
    began: float
    """The time at which the job started, in seconds as time.time() gives them."""


class LogHandler(LogHandlerBase):
    """A log handler for Snakemake that prints long jobs, progress after a silence, failures, and little else."""

    writes_to_stream, writes_to_file = True, False
    # Snakemake then adds its own filter, which heeds --quiet, and its own formatter.
    has_filter = has_formatter = needs_rulegraph = False

    def __post_init__(self) -> None:
        # Now, since Snakemake changes the working directory after this.
        self._folder = Path.cwd()
        self._earlier = seconds_by_rule(DURATIONS)
        self._remaining = Remaining({}, {})
        self._running: dict[int, Job] = {}
        self._failed: dict[int, Sequence[str]] = {}
        self._began = self._printed = time.time()
        self._done = self._total = 0
        self._spent = 0.0
        self._ended = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record of Snakemake in a short form, or not at all if it says little."""
        try:
            text = self._text(record)
            if self.common_settings.verbose:
                self._print(self.format(record))
            elif text:
                lines = (line for line in text.split("\n") if JOBS_ABOVE not in line)
                self._print("\n".join(map(_cut, lines)))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Stop reports of progress; if the workflow has begun but not finished, print which jobs failed."""
        if self._done < self._total and not self.common_settings.dryrun and not self._ended.is_set():
            logs = dict.fromkeys(log for logs in self._failed.values() for log in logs)
            if self._failed:
                self._print("\n    ".join([f"{_jobs(len(self._failed))} failed; the log says why:", *logs]))
            self._print("What is finished is kept; the same command goes on from there.")
        self._ended.set()
        super().close()

    def _print(self, text: str) -> None:
        if text:
            print(text, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)
            self._printed = time.time()

    def _text(self, record: logging.LogRecord) -> str | None:
        match getattr(record, "event", None):
            case LogEvent.RUN_INFO:
                return self._begin(record.stats)
            case LogEvent.JOB_INFO:
                self._running[record.jobid] = Job(record.rule_name, _title(record), record.created)
            case LogEvent.JOB_FINISHED:
                return self._finished(record)
            case LogEvent.GROUP_ERROR:
                jobs = [job["jobid"] for job in record.job_error_info]
                return self._broken(jobs, f"group {record.groupid}", record.aux_logs)
            case LogEvent.JOB_ERROR:
                self._running.pop(record.jobid, None)
                # Of a group each job is named, those that succeeded too; the group's own record came before.
                if not getattr(record, "indent", False):
                    said = (getattr(record, "rule_msg", None) or "").partition("\n    sbatch call")[0]
                    return self._broken([record.jobid], _title(record), record.log, said)
            case LogEvent.ERROR if not self._total and (
                fault := _fault_of_configfile(sys.argv, self._folder)
            ):
                return f"\nerror: {fault}\n"
            case LogEvent.ERROR | None if not any(map(record.getMessage().__contains__, UNPRINTED)):
                # The log of a run that succeeded is of no use, and the last line is to say where its results are.
                hint = record.getMessage().startswith("Complete log(s)")
                return None if hint and not self._failed else self.format(record)
        return None

    def _begin(self, stats: dict[str, int]) -> str | None:
        jobs = {rule: number for rule, number in stats.items() if rule != "total"}
        if self._total and self.common_settings.dryrun:
            return None  # Snakemake says it again at the end
        self._began, self._total = time.time(), sum(jobs.values())
        if self.common_settings.dryrun:
            rows = [f"{rule:{max(map(len, jobs))}} {number:7,}" for rule, number in jobs.items()]
            return "\n".join([*rows, f"{_jobs(self._total)}; --verbose shows each, and why"])
        self._remaining = Remaining(jobs, self._earlier)
        threading.Thread(target=self._watch, daemon=True).start()
        return f"{_clock()}  {_jobs(self._total)}"

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            with self.lock:
                self._break_silence()

    def _break_silence(self) -> None:
        now = time.time()
        if now - self._printed >= max(SILENT_SECONDS, SILENT_SHARE * (now - self._began)):
            titles = [job.title for job in self._running.values()]
            more = f" and {len(titles) - NAMED:,} more" if len(titles) > NAMED else ""
            named = ", ".join(titles[:NAMED]) or "none"
            self._print(f"{_clock()}  {self._progress()}; running: {named}{more}")

    def _finished(self, record: logging.LogRecord) -> str | None:
        job = self._running.pop(record.job_id, None)
        if job is None:
            return None
        took = record.created - job.began
        long = took >= max(LONG_SECONDS, LONG_TIMES * self._spent / max(self._done, 1))
        self._failed.pop(record.job_id, None)
        self._done += 1
        self._spent += took
        self._remaining.finished(job.rule, took)
        if self._done == self._total:
            return f"{_clock()}  {_jobs(self._total)} done in {_duration(time.time() - self._began)}"
        return f"{_clock()}  {job.title}, {_duration(took)} ({self._progress()})" if long else None

    def _broken(self, jobs: Sequence[int], title: str, logs: Sequence[str], said: str = "") -> str:
        self._failed |= dict.fromkeys(jobs, logs)
        lines = [f"{_clock()}  FAILED    {title}", *said.splitlines()]
        for log in logs:
            lines += [*_why(log), f"          its log: {log}"]
        return "\n".join(lines)

    def _progress(self) -> str:
        now = time.time()
        text = f"{self._done:,} of {_jobs(self._total)} in {_duration(now - self._began)}"
        if self._failed:
            return f"{text}, {len(self._failed):,} failed"
        running = [(job.rule, now - job.began) for job in self._running.values()]
        left = self._remaining.seconds(max(now - self._began, 1.0), running)
        return text if left is None else f"{text}, about {_duration(left)} left"


def _fault_of_configfile(command: Sequence[str], folder: Path) -> str | None:
    """A line on which file after --configfile cannot be read, and why, as Snakemake does not say it; None if all can.

    `command` are the words of the command line, which was given in `folder`.
    """
    words = [part for word in command for part in word.split("=")]
    _, *after = [*dropwhile(lambda word: word not in ("--configfile", "--configfiles"), words), None]
    for path in takewhile(lambda word: word and not word.startswith("-"), after):
        try:
            if not isinstance(yaml.safe_load((folder / path).read_text(encoding="utf-8")), dict):
                return f"{path}: expected keys with values"
        except OSError as error:
            hint = "targets come before options: snakemake --cores all majority --configfile mine.yaml"
            return f"--configfile {path}: {error.strerror}; {hint}"
        except (ValueError, yaml.YAMLError) as error:
            return f"{path}: no YAML: {error}"
    return None


def _why(log: str) -> list[str]:
    """The lines that say why a job failed, in a cluster's log at the path `log`; empty if it cannot be read."""
    try:
        return [*dict.fromkeys(WHY.findall(Path(log).read_text(encoding="utf-8", errors="replace")))]
    except OSError:
        return []


def _cut(line: str) -> str:
    if len(line) < LINE_CHARACTERS + SPARED_CHARACTERS:
        return line
    return f"{line[:LINE_CHARACTERS]} ... ({len(line) - LINE_CHARACTERS:,} more characters)"


def _title(record: logging.LogRecord) -> str:
    log = record.log[0] if record.log else ""
    return log.partition("/logs/")[2].removesuffix(".log") or record.rule_name


def _jobs(number: int) -> str:
    return f"{number:,} job{'s' * (number != 1)}"


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
