"""What a run of the workflow prints: a line when a long job starts and ends, and how long the rest may take.

Snakemake finds this package by its name, and profiles/default asks for it: `logger: layernorm-roles`. Where the user
asks Snakemake for a printout of another kind (DETAILED), it is Snakemake's own. Everything that Snakemake says is in
its log file in any case.
"""

import logging
import re
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from snakemake.logging import ColorizingTextHandler, DefaultFormatter, get_event, show_logs
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

from layernorm_roles import ending
from layernorm_roles.settings import yaml_files
from snakemake_logger_plugin_layernorm_roles.remaining import UNKNOWN_SECONDS, Remaining, seconds_by_rule

LONG_SECONDS, LONG_TIMES = 10.0, 2.0
"""A job gets a line for its start and one for its end if it takes longer, and so many times the mean before."""

SILENT_SECONDS, SILENT_SHARE = 30.0, 1 / 40
"""After so long without a line, and so large a share of the time since the beginning, one says how far the run is."""

NAMED = 3
"""So many of the running jobs are named in that line."""

LINE_CHARACTERS = 300
"""Longer lines of Snakemake, such as hundreds of input files, are cut."""

DETAILED = ("quiet", "verbose", "printshellcmds", "debug_dag")
"""Options of Snakemake with which its own printout stands."""

UNIMPORTANT = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Using shell",
    "Group jobs: inactive",
    "Select jobs to execute",
    "Exiting because a job execution failed",
    "Shutting down, this might take some time",
    "Elapsed time",
    "Some jobs were triggered by provenance information",
)
"""Beginnings of Snakemake's messages that are not printed: this package prints other lines for them, or none."""

REPEATED = ("CalledProcessError", "At least one job did not complete successfully")
"""Parts of errors that only repeat that a job has failed."""


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    """Options of the command line and of profiles, with the prefix --logger-layernorm-roles-."""

    durations: Path = field(  # not Path | None, which Snakemake takes for a function
        default=None,
        metadata={
            "help": "CSV file with what the jobs of an earlier run took, for an estimate of the time left"
        },
    )


class Job(NamedTuple):
    """A job that was started and has not ended."""

    rule: str
    title: str
    """The path of its log below the folder logs/, or its rule."""
    began: float
    """Seconds, as time.time() gives them."""


class LogHandler(LogHandlerBase):
    """Prints a line for what a person who waits wants to know."""

    writes_to_stream, writes_to_file = True, False
    has_filter, has_formatter, needs_rulegraph = False, True, False

    def __post_init__(self) -> None:
        common = self.common_settings
        self._brief = not any(getattr(common, option) for option in DETAILED)
        self._dry = common.dryrun
        self._screen = ColorizingTextHandler(
            nocolor=common.nocolor,
            stream=sys.stdout if common.stdout else sys.stderr,
            formatter=Formatter(common.quiet, common.show_failed_logs, whole=common.verbose),
        )
        self._cores: int | None = None
        # Read now, since Snakemake changes the working directory after this.
        self._earlier = seconds_by_rule(self.settings and self.settings.durations)
        self._remaining = Remaining({}, {})
        self._running: dict[int, Job] = {}
        self._announced: set[int] = set()
        self._began = self._printed = time.time()
        self._done = self._total = self._failed = 0
        self._spent = 0.0
        self._planned: dict[str, int] | None = None
        self._ended = threading.Event()
        self._reasons: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print what the record says, shortly or in Snakemake's way; before a failed job's error, why it failed."""
        if get_event(record) == LogEvent.ERROR and (text := _of_configfile(record.getMessage(), sys.argv)):
            self._print(f"\nerror: {text}\n")
            return
        if get_event(record) in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
            logs = [*(getattr(record, "log", None) or []), *(getattr(record, "aux_logs", None) or [])]
            for reason in ending.reasons(logs, getattr(record, "rule_msg", None) or ""):
                if reason not in self._reasons:
                    self._print(reason)
                if "sbatch" in reason:  # the other jobs would be refused for the same reason
                    self._reasons.add(reason)
        if not self._brief:
            self._screen.emit(record)
            return
        try:
            if text := self._text(record):
                self._print(self._screen.decorate(record, text))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """End the thread that looks for long jobs."""
        self._ended.set()
        super().close()

    def _print(self, text: str) -> None:
        self._screen.stream.write(f"{text}\n")
        self._screen.flush()
        self._printed = time.time()

    def _text(self, record: logging.LogRecord) -> str | None:
        match get_event(record):
            case LogEvent.RESOURCES_INFO:
                self._cores = getattr(record, "cores", self._cores)
            case LogEvent.RUN_INFO if self._dry:
                summary, self._planned = self._planned, record.stats
                return None if summary else self._plan(record.stats)
            case LogEvent.RUN_INFO:
                return self._start(record.stats)
            case LogEvent.JOB_INFO:
                self._running[record.jobid] = Job(record.rule_name, _title(record), record.created)
            case LogEvent.JOB_FINISHED:
                return self._finished(record)
            case LogEvent.JOB_ERROR:
                return self._broken(record)
            case LogEvent.ERROR if not any(map(record.getMessage().__contains__, REPEATED)):
                return self._screen.format(record)
            case LogEvent.GROUP_ERROR:
                self._failed += 1
                return self._screen.format(record)
            case None if not record.getMessage().startswith(UNIMPORTANT):
                # The log of a run that succeeded is of no use, and the last line is to say where its results are.
                hint = record.getMessage().startswith("Complete log(s)")
                return None if hint and not self._failed else self._screen.format(record)
        return None

    def _plan(self, stats: dict[str, int]) -> str:
        """What a dry run plans: the jobs of each rule, and how long they take as long as those of the earlier run."""
        jobs = {rule: number for rule, number in stats.items() if rule != "total"}
        seconds = sum(number * self._earlier.get(rule, UNKNOWN_SECONDS) for rule, number in jobs.items())
        training = sum(number for rule, number in jobs.items() if re.search("_train(_|$)", rule))
        width = max(map(len, jobs))
        by_number = sorted(jobs.items(), key=lambda job: -job[1])
        lines = [f"{rule:{width}} {number:7}" for rule, number in by_number]
        said = (
            f"{training:,} jobs that train and {sum(jobs.values()) - training:,} others; on one core about "
            f"{_duration(seconds)}, if each takes what it took at the sizes of the kept reproduction; "
            "--verbose shows each job"
        )
        return "\n".join([*lines, said])

    def _start(self, stats: dict[str, int]) -> str:
        jobs = {rule: number for rule, number in stats.items() if rule != "total"}
        self._began, self._total = time.time(), sum(jobs.values())
        self._remaining = Remaining(jobs, self._earlier)
        threading.Thread(target=self._watch, daemon=True).start()
        at_a_time = f", {self._cores} at a time" if self._cores else ""
        return f"{_clock()}  {self._total:,} job{'s' * (self._total != 1)}{at_a_time}"

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            self._watch_once()

    def _watch_once(self) -> None:
        with self.lock:
            now = time.time()
            long = max(LONG_SECONDS, LONG_TIMES * self._spent / max(self._done, 1))
            for jobid, job in self._running.items():
                if jobid not in self._announced and now - job.began >= long:
                    self._announced.add(jobid)
                    self._print(f"{_clock()}  running   {job.title}, since {_clock(job.began)}")
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
        self._done += 1
        self._spent += took
        self._remaining.finished(job.rule, took)
        if self._done == self._total:
            return f"{_clock()}  all {self._total:,} jobs done in {_duration(time.time() - self._began)}"
        if record.job_id in self._announced:
            return f"{_clock()}  finished  {job.title}, {_duration(took)} ({self._progress()})"
        return None

    def _broken(self, record: logging.LogRecord) -> str:
        self._running.pop(record.jobid, None)
        self._announced.discard(record.jobid)
        self._failed += 1
        lines = [f"{_clock()}  FAILED    {_title(record)}"]
        lines += [f"          its log: {log}" for log in record.log]
        lines += show_logs(record.log) if self.common_settings.show_failed_logs else []
        return "\n".join(lines)

    def _progress(self) -> str:
        now = time.time()
        text = f"{self._done:,} of {self._total:,} jobs in {_duration(now - self._began)}"
        if self._failed:
            return f"{text}, {self._failed} failed"
        running = [(job.rule, now - job.began) for job in self._running.values()]
        left = self._remaining.seconds(max(now - self._began, 1.0), running)
        return text if left is None else f"{text}, about {_duration(left)} left"


class Formatter(DefaultFormatter):
    """Snakemake's own printout, with its longest lines cut unless `whole`."""

    def __init__(self, quiet, show_failed_logs: bool, whole: bool):
        super().__init__(quiet, show_failed_logs)
        self._whole = whole

    def format(self, record: logging.LogRecord) -> str:
        """The text of the record."""
        text = str(super().format(record))
        return text if self._whole else "\n".join(map(_cut, text.split("\n")))


def _of_configfile(error: str, command: Sequence[str]) -> str | None:
    """What is wrong with --config or a file of --configfile, for which Snakemake has a traceback or a hint; else None.

    `command` are the words of the command. Of other errors nothing is known here.
    """
    missing = re.search(r"_load_configfile(?s:.*)FileNotFoundError: .*: '(.*)'", error)
    if missing:
        return (
            f"--configfile {missing[1]}: no such file. Targets come before options: "
            "snakemake --cores all majority --configfile mine.yaml"
        )
    if "parse_config" in error:
        return (
            "--config: expected KEY=VALUE, such as device=auto; keys below others are for a file of --configfile. "
            "Targets come before options: snakemake --cores all majority --config device=auto"
        )
    if "_load_configfile" in error or "Config file " in error:
        words = [part for word in command for part in word.split("=")]
        following = dropwhile(lambda word: not word.startswith("--configfile"), words)
        for word in following:
            if Path(word).exists():
                try:
                    yaml_files.read(word)
                except ValueError as fault:
                    return str(fault)
    return None


def _cut(line: str) -> str:
    if len(line) <= LINE_CHARACTERS:
        return line
    return f"{line[:LINE_CHARACTERS]} ... ({len(line) - LINE_CHARACTERS:,} more characters; --verbose shows them)"


def _title(record: logging.LogRecord) -> str:
    log = record.log[0] if record.log else ""
    return log.partition("/logs/")[2].removesuffix(".log") or record.rule_name


def _clock(seconds: float | None = None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
