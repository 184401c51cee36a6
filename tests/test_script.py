"""How a job ends, whatever happens in it, as a process of its own."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from layernorm_roles import files
from layernorm_roles import script as script_module

PATIENCE = 60  # seconds


def script(block):
    """A program whose job, logged in log.txt, holds a temporary folder called held_... while it runs `block`."""
    lines = ["import sys, tempfile, time, types", "from layernorm_roles import script"]
    lines += ["with script.job(types.SimpleNamespace(log=['log.txt'], params={}, output=[])):"]
    lines += ["    with tempfile.TemporaryDirectory(prefix='held_', dir='.'):"]
    return "\n".join(lines) + "\n" + textwrap.indent(block, 8 * " ")


MEMORY = r"error: the memory of this machine is used up; run fewer jobs .*can't allocate memory.*"


@pytest.mark.parametrize(
    ("block", "code", "error", "log"),
    [
        ("pass", 0, "", r".* done\n"),
        ("raise OSError('words is 0')", 1, r"\nerror: words is 0\n\(details: log.txt\)\n\n", ".*Traceback.*"),
        ("import torch\ntorch.empty(1 << 58)", 1, rf"\n{MEMORY}\n\(details: log.txt\)\n\n", ".*Traceback.*"),
        ("raise KeyError('lost')", 1, ".*Traceback.*KeyError: 'lost'\n", ".*KeyError: 'lost'.*"),
    ],
)
def test_a_job_ends_with_one_line_or_a_traceback_and_has_all_in_its_log(tmp_path, block, code, error, log):
    command = [sys.executable, "-c", script(block)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert not list(tmp_path.glob("held_*")) and (done.returncode, done.stdout) == (code, "")
    logged = (tmp_path / "log.txt").read_text()
    for pattern, text in ((error, done.stderr), (log, logged)):
        assert re.fullmatch(f"(?s){pattern}", text), text
    assert logged.endswith(" done\n") == (code == 0)


PLANNED = """
import json, sys
from types import SimpleNamespace
from pathlib import Path
from layernorm_roles import script
class Output(list):
    origin = "origin/a.json"
Path(".out.7.partial").touch()
Path("log.txt").write_text("earlier")
given = {"params": {"plan": {"job": "a", "made_by": {}}}, "output": Output(["out"])}
with script.job(SimpleNamespace(log=["log.txt"], **given)) as plan:
    assert plan["job"] == "a" and not Path("origin").exists() and not Path(".out.7.partial").exists()
    if "fails" in sys.argv:
        raise ValueError("no")
"""


@pytest.mark.parametrize("how", ["fails", "passes"])
def test_a_job_that_passes_leaves_its_plan(tmp_path, how):
    command, slurm = [sys.executable, "-c", PLANNED, how], {"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "1"}
    own = {"cwd": tmp_path, "env": os.environ | slurm, "timeout": PATIENCE}
    done = subprocess.run(command, capture_output=True, text=True, **own)
    origin, log = tmp_path / "origin/a.json", (tmp_path / "log.txt").read_text()
    assert "earlier" not in log and re.search(r"SLURM job 7 on \S+, GPUs 1\n", log)
    assert (done.returncode, origin.exists()) == ((0, True) if how == "passes" else (1, False)), done.stderr
    assert how == "fails" or json.loads(origin.read_text()) == {"job": "a", "made_by": {}}


def test_progress_is_logged_every_five_seconds_and_printed_every_thirty(monkeypatch, caplog, capsys):
    """Of a run that went on from a checkpoint, the time left is by the steps taken since."""
    now = [100.0]
    monkeypatch.setattr(script_module.time, "monotonic", lambda: now[0])
    progress = script_module.Progress("run", total=1000, unit="steps", done=200)
    with caplog.at_level(logging.INFO, "layernorm_roles"):
        for second, done in ((4, 200), (5, 200), (9, 350), (25, 400), (30, 600), (33, 1000)):
            now[0] = 100.0 + second
            progress(done, "loss 2" if done == 600 else "")
    lines = ["200 of 1,000 steps, 5 s", "400 of 1,000 steps, 25 s, 75 s left"]
    lines += ["600 of 1,000 steps, 30 s, 30 s left; loss 2", "1,000 of 1,000 steps, 33 s, 0 s left"]
    assert caplog.messages == [f"run: {line}" for line in lines]
    assert capsys.readouterr().err == f"run: {lines[2]}\n"


def test_a_fault_is_named_by_its_key_unless_it_is_that_of_a_file():
    for error, says in ((ValueError("too few"), "text.words: too few"), (files.Unusable("a: no"), "a: no")):
        with pytest.raises(ValueError, match=f"^{says}$"), script_module.naming("text.words"):
            raise error


WAITS = script("print('ready', flush=True)\ntime.sleep(100)")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_that_leaves_nothing_half_written_and_no_traceback(tmp_path, number):
    command = [sys.executable, "-c", WAITS]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Against SIGTERM as a shell starts a job with &, which Ctrl-C does not end; pytest may have been started so, too.
    before = signal.SIG_IGN if number == signal.SIGTERM else signal.default_int_handler
    start = {"preexec_fn": lambda: signal.signal(signal.SIGINT, before)}
    with subprocess.Popen(command, cwd=tmp_path, **pipes, **start) as process:
        try:
            assert process.stdout.readline() == "ready\n" and list(tmp_path.glob("held_*"))
            process.send_signal(signal.SIGINT)
            process.send_signal(number)
            assert process.communicate(timeout=PATIENCE)[1] == "" and process.returncode == 128 + number
        finally:
            process.kill()
    ended = re.findall(r"ended by (\w+)", (tmp_path / "log.txt").read_text())
    assert not list(tmp_path.glob("held_*")) and ended == [number.name]


def test_an_orphan_ends_and_leaves_nothing_half_written(tmp_path):
    """The parent waits until the job runs, and goes; the job keeps its output open, so that its end is seen there."""
    parent = f"""
import os, subprocess, sys
job = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stdout=subprocess.PIPE, stderr=sys.stderr)
assert job.stdout.readline() == b"ready\\n"
assert [name for name in os.listdir() if name.startswith("held_")]
os._exit(0)
"""
    command = [sys.executable, "-c", parent]
    subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, check=True, timeout=PATIENCE)
    assert not list(tmp_path.glob("held_*"))
    assert "the process that started this job is gone" in (tmp_path / "log.txt").read_text()
