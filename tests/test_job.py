"""How a job ends, whatever happens in it, as a process of its own."""

import re
import signal
import subprocess
import sys
import textwrap

import pytest

PATIENCE = 60  # seconds


def script(block):
    """A program whose job, logged in log.txt, holds a temporary folder called held_... while it runs `block`."""
    lines = ["import sys, tempfile, time, types", "from layernorm_roles import job"]
    lines += ["with job.job(types.SimpleNamespace(log=['log.txt'], input={}, output=[])):"]
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


WAITS = script("print('ready', flush=True)\ntime.sleep(100)")


def test_sigterm_ends_a_job_that_leaves_nothing_half_written(tmp_path):
    command = [sys.executable, "-c", WAITS]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n" and list(tmp_path.glob("held_*"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert not list(tmp_path.glob("held_*")) and "ended by SIGTERM" in (tmp_path / "log.txt").read_text()


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
