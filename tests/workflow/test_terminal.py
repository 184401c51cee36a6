"""What a run prints: few lines, the last one useful; failed jobs by their logs; and how long the rest may take."""

import logging
import re
import time
from pathlib import Path

import pytest
from checkouts import SMOKE
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

from layernorm_roles import ending
from snakemake_logger_plugin_layernorm_roles import (
    LINE_CHARACTERS,
    LogHandler,
    LogHandlerSettings,
    _cut,
    _duration,
    _of_configfile,
)
from snakemake_logger_plugin_layernorm_roles.remaining import UNKNOWN_SECONDS, Remaining, seconds_by_rule

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(checkout):
    return checkout(SMOKE)


def test_failed_jobs_are_named_with_their_logs(made):
    law = "results/smoke/parquet/gaussian_law.parquet"
    made.run(law, "results/smoke/parquet/random_keys.parquet")
    file = made.folder / law
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    done = made.snakemake("random_keys")
    file.write_bytes(content)
    log = "results/smoke/logs/draw/random_keys.log"
    lines = done.stdout.splitlines()
    assert done.returncode != 0 and len(lines) < 25, done.stdout
    first = next(number for number, line in enumerate(lines) if "FAILED    draw/random_keys" in line)
    assert lines[first + 1].strip() == f"its log: {log}"
    last = lines.index("1 job failed; its log says why:")
    assert lines[last + 1] == f"    {log}" and "the same command goes on" in lines[last + 2]
    assert lines[-1].startswith("Complete log(s): ")
    assert sum(line.startswith("error: ") for line in lines) == 1
    assert "CalledProcessError" not in done.stdout and "Traceback" not in done.stdout


def test_a_dry_run_counts_the_jobs_and_says_how_long_they_may_take(made):
    plan = made.run("all", "--dry-run")
    lines = plan.splitlines()
    assert len(lines) < 60 and max(map(len, lines)) < LINE_CHARACTERS + 80
    rows = re.findall(r"^(\w+) +(\d+)$", plan, re.MULTILINE)
    trainings = sum(int(number) for rule, number in rows if "_train" in rule)
    others = sum(int(number) for _, number in rows) - trainings
    assert len(rows) == len(dict(rows)) > 20
    minutes = round((trainings + others) * UNKNOWN_SECONDS / 60)  # this checkout has no kept run
    assert f"{trainings} jobs that train and {others} others; on one core about {minutes} min, if" in plan
    assert len(made.run("all", "--dry-run", "--verbose").splitlines()) > 10 * len(lines)


@pytest.mark.parametrize(
    ("error", "words", "says"),
    [
        (
            "in _load_configfile\nIsADirectoryError",
            ["--configfile", "{}"],
            "{}: no YAML: [Errno 21] Is a directory",
        ),
        (
            "Config file must be given as",
            ["--configfile={}/empty.yaml"],
            "{}/empty.yaml: expected keys with values",
        ),
        (
            "config=parse_config(args.config)",
            ["--config", "name=x", "majority"],
            "--config: expected KEY=VALUE",
        ),
        ("another error", ["--configfile", "{}"], "None"),
    ],
)
def test_a_configuration_that_snakemake_cannot_read_is_named(error, words, says, tmp_path):
    (tmp_path / "empty.yaml").touch()
    said = str(_of_configfile(error, ["snakemake", *(word.format(tmp_path) for word in words)]))
    assert said.startswith(says.format(tmp_path)) and "\n" not in said


def test_the_last_words_on_verdicts_and_failures(tmp_path):
    text = ending.verdicts(ROOT / "results/published")
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    assert re.match(r"\d+ claims: \d+ [a-z ]+, ", text) and numbers[0] == sum(numbers[1:])
    published = str(ROOT / "results/published")
    pages = [f"{published}/report.html", "results/smoke/compare_x.html", "results/smoke/settings.json"]
    said = [f"{published}: {text}", *(f"The report: {page}" for page in sorted(pages[:2]))]
    assert ending.results(pages, ["results/smoke", published]) == said
    assert ending.results(["a/b/c", "a/b/d", "a/e"], ["a"]) == ["Made: a/", "Made: a/b/"]
    assert ending.failure([])[0].startswith("The run was stopped.")
    assert ending.failure(["b", "a"])[:3] == ["2 jobs failed; their logs say why:", "    a", "    b"]


def test_the_reasons_of_a_failed_job_are_its_own_errors_and_what_slurm_did_to_it(tmp_path):
    own = "error: results/tiny/d.parquet: damaged"
    limit = "slurmstepd: error: *** JOB 7 ON one CANCELLED AT 2026-11-22T23:00:00 DUE TO TIME LIMIT ***"
    first, second = tmp_path / "first.log", tmp_path / "second.log"
    first.write_text(f"Traceback\nValueError: error: not at the start\n\n{own}\n(details: x.log)\n")
    second.write_bytes(f"{own}\n\xff\n{limit}\nslurmstepd: error: something else\n".encode("latin-1"))
    assert ending.reasons([str(first), str(second)]) == [own, limit]
    assert ending.reasons([str(tmp_path / "gone.log"), str(tmp_path)]) == []
    refused = "sbatch: error: Batch job submission failed: Invalid feature specification"
    message = f"SLURM sbatch failed. The error message was '{refused}'.\n    sbatch call:\n        sbatch --parsable"
    assert ending.reasons([], message) == [f"error: {refused}"]


EARLIER = {"data": 1.0, "train": 100.0}


@pytest.mark.parametrize("speed", [0.05, 1.0, 3.0])
def test_the_time_left_is_right_on_a_machine_of_another_speed(speed):
    """Two jobs at a time, data before training: after 10 of 40 trainings the rest takes three times as long as they."""
    remaining = Remaining({"data": 40, "train": 40}, EARLIER)
    for _ in range(40):
        remaining.finished("data", speed)
    assert remaining.seconds(20 * speed, []) is None, "data say nothing about training"
    for _ in range(10):
        remaining.finished("train", 100 * speed)
    elapsed = (40 + 1000) * speed / 2
    assert remaining.seconds(elapsed, []) == pytest.approx(30 * 100 * speed / 2)
    halfway = [("train", 50 * speed)] * 2
    assert remaining.seconds(elapsed + 50 * speed, halfway) == pytest.approx(29 * 100 * speed / 2)
    overrun = [("train", 250 * speed)]
    assert (remaining.seconds(elapsed, overrun) is None) == (150 * speed > 30)


def test_the_time_left_of_a_run_of_which_nothing_is_known_is_that_of_what_was_seen():
    remaining = Remaining({"figures": 4, "page": 1}, {})
    assert remaining.seconds(1.0, []) is None
    for _ in range(2):
        remaining.finished("figures", 8.0)
    assert remaining.seconds(16.0, []) == pytest.approx(2 * 8.0 + 5.0)


def test_the_kept_durations_are_those_of_the_rules(tmp_path):
    seconds = seconds_by_rule(ROOT / "results/published/tables/durations.csv")
    assert seconds["majority_train"] > 5 > seconds["worked_numbers"] > 0
    assert seconds_by_rule(tmp_path / "missing.csv") == seconds_by_rule(None) == {}


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "rule,jobs,wall_minutes\nx,0,1\n", "rule,jobs,wall_minutes\nx\n"]
)
def test_durations_that_cannot_be_read_stop_nothing(tmp_path, text):
    (tmp_path / "durations.csv").write_text(text, encoding="utf-8")
    assert seconds_by_rule(tmp_path / "durations.csv") == {}


class TestPlugin(TestLogHandlerBase):
    """Snakemake's own tests of a logger plugin, and that no event makes this one stumble."""

    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return LogHandlerSettings()

    def _create_handler(self):
        common = MockOutputSettings()
        common.printshellcmds = common.show_failed_logs = False
        self.handler = LogHandler(common_settings=common, settings=LogHandlerSettings())
        return self.handler

    @pytest.fixture(autouse=True)
    def nothing_stumbles(self, capsys):
        yield
        self.handler.close()
        assert "Traceback" not in capsys.readouterr().err


def listening(monkeypatch):
    """A handler, its clock, and a function that tells it of an event."""
    common = MockOutputSettings()
    common.printshellcmds = common.show_failed_logs = False
    now = [0.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    handler = LogHandler(common_settings=common, settings=LogHandlerSettings())

    def tell(event, **facts):
        handler.handle(logging.makeLogRecord({"event": event, "log": [], "rule_name": "train", **facts}))

    return handler, now, tell


def test_after_a_long_silence_a_line_says_how_far_the_run_is(monkeypatch, capsys):
    """Once in a fortieth of an hour, since that is longer than half a minute; failed jobs run no more."""
    handler, now, tell = listening(monkeypatch)
    tell(LogEvent.RUN_INFO, stats={"train": 4, "total": 4})
    for job in (1, 2):
        handler._announced.add(job)
        tell(LogEvent.JOB_INFO, jobid=job)
    tell(LogEvent.JOB_ERROR, jobid=1, levelno=logging.ERROR)
    capsys.readouterr()
    for now[0] in (3600.0, 3640.0, 3690.0, 3700.0):
        handler._watch_once()
    handler.close()
    said = [line[10:] for line in capsys.readouterr().err.splitlines()]
    assert said == [f"0 of 4 jobs in {minutes} min, 1 failed; running: train" for minutes in (60, 62)]


def test_the_last_job_ends_the_run(monkeypatch, capsys):
    handler, now, tell = listening(monkeypatch)
    tell(LogEvent.RUN_INFO, stats={"train": 2, "total": 2})
    for job in (1, 2):
        tell(LogEvent.JOB_INFO, jobid=job)
        now[0] += 5.0
        tell(LogEvent.JOB_FINISHED, job_id=job)
    handler.close()
    assert [line[10:] for line in capsys.readouterr().err.splitlines()] == [
        "2 jobs",
        "all 2 jobs done in 10 s",
    ]


def test_a_long_job_is_announced_once_and_at_its_end_the_time_left_is_said(monkeypatch, capsys):
    """Long is above ten seconds and above twice the mean of the jobs before; two of five jobs run at a time."""
    handler, now, tell = listening(monkeypatch)
    handler._earlier = {"train": 200.0}
    tell(LogEvent.RESOURCES_INFO, cores=2)
    tell(LogEvent.RUN_INFO, stats={"train": 5, "total": 5})
    for job, log in ((1, "a/b"), (2, "c")):
        tell(LogEvent.JOB_INFO, jobid=job, log=[f"results/x/logs/{log}.log"])
        now[0] += 2.0
    for now[0] in (9.0, 10.5, 11.0, 12.5):
        handler._watch_once()
    now[0] = 20.0
    tell(LogEvent.JOB_FINISHED, job_id=1)
    tell(LogEvent.JOB_INFO, jobid=3)  # without a log
    for now[0] in (49.0, 60.0):
        handler._watch_once()
    handler.close()
    since = [time.strftime("%H:%M:%S", time.localtime(began)) for began in (0, 2, 20)]
    assert [line[10:] for line in capsys.readouterr().err.splitlines()] == [
        "5 jobs, 2 at a time",
        f"running   a/b, since {since[0]}",
        f"running   c, since {since[1]}",
        "finished  a/b, 20 s (1 of 5 jobs in 20 s, about 33 s left)",  # 4 * 20 - 18, of 38 s of jobs in 20
        f"running   train, since {since[2]}",
    ]


def test_durations_and_long_lines_are_printed_shortly(monkeypatch):
    seconds = {0.4: "0 s", 99.4: "99 s", 100: "2 min", 5960: "99 min", 5990: "1 h 40 min", 7260: "2 h 01 min"}
    assert {number: _duration(number) for number in seconds} == seconds
    line = "x" * LINE_CHARACTERS
    assert _cut(line) == line and _cut(f"{line}yz") == f"{line} ... (2 more characters; --verbose shows them)"
    handler, _, _ = listening(monkeypatch)
    handler._earlier = {"a_train": 100.0, "b": 10.0}
    rows = handler._plan({"a_train": 3, "b": 12, "unknown": 2, "total": 17}).splitlines()
    handler.close()
    assert [row.split() for row in rows[:3]] == [["b", "12"], ["a_train", "3"], ["unknown", "2"]]
    assert rows[3].startswith("3 jobs that train and 14 others; on one core about 7 min, if each")
