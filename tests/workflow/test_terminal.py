"""What a run prints: few lines; failed jobs by their logs; how long the rest may take; why a file cannot be read."""

import logging
import re
import threading
import time

import pytest
from checkouts import ROOT, SMOKE, snakemake
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings

from snakemake_logger_plugin_layernorm_roles import DURATIONS, LINE_CHARACTERS, LogHandler, _duration
from snakemake_logger_plugin_layernorm_roles.remaining import Remaining, seconds_by_rule


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--configfile", "folder"], "^error: --configfile folder: Is a directory; targets come before"),
        (["--configfile=missing.yaml"], "^error: --configfile missing.yaml: No such file"),
        (["--configfiles", "tiny.yaml", "empty.yaml"], "^error: empty.yaml: expected keys with values"),
        (["--configfile", "tabs.yaml"], r"^error: tabs.yaml: no YAML: (?s:.*)line 2"),
        (["--configfile", "tag.yaml"], "constructor for the tag"),
        (["--configfile", "latin.yaml"], "^error: latin.yaml: no YAML: 'utf-8' codec"),
        (
            ["--configfile", "twice.yaml"],
            "twice.yaml: no YAML: the key 'majority' is there twice.* line 2, column 1$",
        ),
        (
            ["--configfile", "steps.yaml"],
            "majority.d8.steps = -1: Input should be greater than or equal to 1",
        ),
        # A file that can be read is not blamed for another error in another folder.
        (["--directory", "folder", "--configfile", "tiny.yaml"], "No rule to produce nothing/such"),
    ],
)
def test_a_wrong_file_of_configfile_is_named_before_anything_is_done(checkout, words, says):
    made = checkout(SMOKE)
    (made.folder / "folder").mkdir()
    (made.folder / "empty.yaml").touch()
    (made.folder / "latin.yaml").write_bytes(b"name: gr\xfcn")
    (made.folder / "tabs.yaml").write_text("name: x\n\tdevice: cpu\n")
    (made.folder / "tag.yaml").write_text("name: !!python/object/apply:os.system ['touch hacked']")
    (made.folder / "twice.yaml").write_text("majority: {d8: {steps: 20}}\nmajority: {d8: {seeds: 2}}")
    (made.folder / "steps.yaml").write_text("majority: {d8: {steps: -1}}")
    target = "nothing/such" if "nothing/such" in says else "majority"
    done = snakemake(made.folder, target, *words, package=ROOT)
    assert done.returncode != 0 and re.search(says, done.stdout, re.MULTILINE), done.stdout
    assert not [*made.folder.glob("results"), *made.folder.glob("hacked*")]
    assert "Traceback" not in done.stdout and (target == "majority" or "tiny.yaml" not in done.stdout)


def test_the_target_pretrained_without_a_model_is_refused_in_a_line(checkout):
    made = checkout(SMOKE)
    (made.folder / "none.yaml").write_text("pretrained: {minilm: null}")
    done = snakemake(made.folder, "pretrained", "--configfile", "none.yaml", package=ROOT)
    says = "\nerror: pretrained: nothing to do; expected an entry of `pretrained` that is not null\n"
    assert done.returncode != 0 and says in done.stdout, done.stdout
    assert "Traceback" not in done.stdout and "Missing" not in done.stdout


@pytest.mark.parametrize("speed", [0.05, 1.0, 3.0])
def test_the_time_left_is_right_on_a_machine_of_another_speed(speed):
    """Two jobs at a time, data before training: after 10 of 40 trainings the rest takes three times as long as they.

    Two figures, of which nothing is known, count five seconds each.
    """
    remaining = Remaining({"data": 40, "train": 40, "figure": 2}, {"data": 1.0, "train": 100.0})
    for _ in range(40):
        remaining.finished("data", speed)
    assert remaining.seconds(20 * speed, []) is None, "data say nothing about training"
    for _ in range(10):
        remaining.finished("train", 100 * speed)
        assert remaining.seconds(speed, []) is not None
    elapsed = (40 + 1000) * speed / 2
    assert remaining.seconds(elapsed, []) == pytest.approx(30 * 100 * speed / 2 + 5)
    for spent, left in ((50, 29), (110, 28)):  # two jobs half way, and a little longer than expected
        found = remaining.seconds(elapsed + spent * speed, [("train", spent * speed)] * 2)
        assert found == pytest.approx(left * 100 * speed / 2 + 5)
    overrun = [("train", 250 * speed)]
    assert (remaining.seconds(elapsed, overrun) is None) == (150 * speed > 30)


def test_the_time_left_of_a_run_of_which_nothing_is_known_is_that_of_what_was_seen():
    remaining = Remaining({"figures": 4, "page": 1}, {})
    assert remaining.seconds(1.0, []) is None
    for _ in range(2):
        remaining.finished("figures", 8.0)
    assert remaining.seconds(16.0, []) == pytest.approx(2 * 8.0 + 5.0)


def test_the_kept_durations_are_those_of_the_rules_and_others_stop_nothing(tmp_path):
    seconds = seconds_by_rule(DURATIONS)
    assert seconds["majority_train"] > seconds["geometry"] > 0
    file = tmp_path / "durations.csv"
    assert seconds_by_rule(file) == {}
    header = "rule,jobs,wall_minutes\n"
    for text in ("", "a,b\n1,2\n", f"{header}x,0,1\n", f"{header}x\n"):
        file.write_text(text, encoding="utf-8")
        assert seconds_by_rule(file) == {}
    file.write_text(f"{header}x,4,2\ny,3,\n", encoding="utf-8")
    assert seconds_by_rule(file) == {"x": 30.0}


@pytest.fixture
def listening(monkeypatch):
    """A handler, its clock, and a function that tells it of an event."""
    common, now = MockOutputSettings(), [0.0]
    common.printshellcmds = common.show_failed_logs = False
    made = LogHandler(common_settings=common, settings=None)
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    made.times = []  # at which the watch wakes, until it ends

    def wait(seconds):
        now[:] = made.times[:1] or now
        return not (made.times and made.times.pop(0))

    monkeypatch.setattr(made._ended, "wait", wait)

    def tell(event, **facts):
        made.handle(logging.makeLogRecord({"event": event, "log": [], "rule_name": "train", **facts}))

    return made, now, tell


def test_after_a_long_silence_a_line_says_how_far_the_run_is(listening, capsys):
    """After half a minute, or a fortieth of the run's time if that is longer; failed jobs run no more."""
    handler, _, tell = listening
    for job in range(1, 7):
        tell(LogEvent.JOB_INFO, jobid=job)
    tell(LogEvent.JOB_ERROR, jobid=1, levelno=logging.ERROR)
    capsys.readouterr()
    handler.times += 29.0, 31.0, 3600.0, 3640.0, 3690.0, 3700.0
    tell(LogEvent.RUN_INFO, stats={"train": 8, "total": 8})
    said = [line[10:] for line in capsys.readouterr().err.splitlines()]
    running = "1 failed; running: train, train, train and 2 more"
    assert said == [*(f"0 of 8 jobs in {t}, {running}" for t in ("31 s", "60 min", "62 min")), "8 jobs"]
    handler.close()


def test_the_end_of_a_long_job_is_said_with_the_time_left_and_that_of_the_run(listening, capsys):
    """Long is ten seconds or more, and twice the mean of the jobs before; two of four jobs run at a time."""
    handler, now, tell = listening
    assert handler._earlier == seconds_by_rule(DURATIONS)
    handler._earlier = {"train": 200.0}
    now[0] = 50.0
    tell(LogEvent.RUN_INFO, stats={"train": 4, "total": 4})
    for job, log in ((1, "a/b"), (2, "c")):
        tell(LogEvent.JOB_INFO, jobid=job, created=now[0], log=[f"results/x/logs/{log}.log"])
        now[0] += 2.0
    for job, now[0] in ((1, 60.0), (2, 62.0)):
        tell(LogEvent.JOB_FINISHED, job_id=job, created=now[0])
        tell(LogEvent.JOB_INFO, jobid=job + 2, created=now[0])  # without a log
    for job, now[0] in ((3, 80.0), (4, 130.0)):
        tell(LogEvent.JOB_FINISHED, job_id=job, created=now[0])
    handler.close()
    assert [line[10:] for line in capsys.readouterr().err.splitlines()] == [
        "4 jobs",
        "a/b, 10 s (1 of 4 jobs in 10 s, about 12 s left)",  # 3 * 10 - 8, of 18 s of jobs in 10
        "train, 20 s (3 of 4 jobs in 30 s, about 0 s left)",  # the last has run longer than the mean
        "4 jobs done in 80 s",
    ]


def test_a_job_that_fails_on_a_cluster_says_why_unless_it_succeeds_at_last(listening, capsys, tmp_path):
    """Of a group all jobs are reported, also those that succeeded; the cluster's own log says which failed, and why."""
    own = "error: results/tiny/d.parquet: damaged\n(details: x.log)"
    limit = "slurmstepd: error: *** JOB 7 ON one CANCELLED AT 2026-11-22T23:00:00 DUE TO TIME LIMIT ***"
    log, (handler, _, tell) = tmp_path / "7.log", listening
    text = f"ValueError: error: not at the start\n\n{own}\n\xff\n{own}\n{limit}\nslurmstepd: error: no\n"
    log.write_bytes(text.encode("latin-1"))
    tell(LogEvent.RUN_INFO, stats={"train": 3, "total": 3})
    tell(None, msg="Complete log(s): of a run that may succeed")
    for job in (1, 2, 3):
        tell(LogEvent.JOB_INFO, jobid=job)
    tell(LogEvent.GROUP_ERROR, groupid="g", aux_logs=[str(log)], job_error_info=[{"jobid": 1}, {"jobid": 2}])
    for job in (1, 2):
        tell(LogEvent.JOB_ERROR, jobid=job, indent=True, log=["missing.log"])
    refused = "SLURM sbatch failed. The error message was 'sbatch: error: Invalid partition name specified'."
    said = f"{refused}\n    sbatch call:\n        sbatch --parsable"
    tell(LogEvent.JOB_ERROR, jobid=3, indent=False, rule_msg=said)
    for job in (1, 2):
        tell(LogEvent.JOB_INFO, jobid=job, log=["logs/train.log"])
        tell(LogEvent.JOB_FINISHED, job_id=job)
    tell(None, msg="Complete log(s): of a run that failed")
    handler.close()
    handler.close()
    said = [line.strip() for line in capsys.readouterr().err.splitlines()]
    assert said[1].endswith("FAILED    group g") and said[2:6] == [*own.split("\n"), limit, f"its log: {log}"]
    assert said[6].endswith("FAILED    train") and said[7] == refused
    assert said[8:10] == ["Complete log(s): of a run that failed", "1 job failed; the log says why:"]
    assert "the same command goes on" in said[10] and len(said) == 11


@pytest.mark.parametrize("option", ["dryrun", "verbose"])
def test_a_dry_run_prints_counts_and_long_lines_are_cut_but_with_verbose(option, listening, capsys):
    line, (handler, _, tell) = "x" * LINE_CHARACTERS, listening
    setattr(handler.common_settings, option, True)
    for _ in range(1 + (option == "dryrun")):  # Snakemake says the counts of a dry run twice
        tell(LogEvent.RUN_INFO, msg="counts", stats={"train": 1200, "draw": 3, "total": 1203})
    above, *updated = (
        "(check individual jobs above for details)",
        "input files updated by another job:",
        "    draw",
    )
    reasons = "\n    ".join(["Reasons:", above, *updated])
    for text in ("Using shell: bash", reasons, f"{line}yz", line + line):
        tell(None, msg=text)
    if option == "dryrun":
        handler.close()
    said = capsys.readouterr().err.splitlines()
    handler.close()
    if option == "verbose":
        assert said == ["counts", "Using shell: bash", *reasons.split("\n"), f"{line}yz", line + line]
    else:
        assert [text.split() for text in said[:2]] == [["train", "1,200"], ["draw", "3"]]
        assert said[2] == "1,203 jobs; --verbose shows each, and why"
        *reasons, short, cut = said[3:]
        assert reasons == ["Reasons:", "    input files updated by another job:", "        draw"]
        assert short == f"{line}yz" and cut == f"{line} ... (300 more characters)"


def test_durations_are_printed_shortly():
    seconds = {0.4: "0 s", 99.4: "99 s", 100: "2 min", 5960: "99 min", 5990: "1 h 40 min", 7260: "2 h 01 min"}
    assert {number: _duration(number) for number in seconds} == seconds
